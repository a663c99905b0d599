//! Checksums of all artifacts, signed, and the statement of where they come from.

use super::{Release, artifacts, bytes, name, provenance, sha256, tools, write};
use crate::command::{Outcome, program};
use std::path::Path;

const SUMS: &str = "SHA256SUMS";
const SIGNATURE: &str = "SHA256SUMS.minisig";
/// The variable with the text of the file of a secret key without a password.
const KEY: &str = "MINISIGN_SECRET_KEY";

/// Writes `holdall-VERSION.intoto.json`, `SHA256SUMS` and, if there is a key, `SHA256SUMS.minisig`.
pub(super) fn sums(release: &Release) -> Result<Vec<String>, String> {
    let statement = release.out.join(release.named("provenance.intoto.json"));
    for old in [SUMS, SIGNATURE] {
        let _ = std::fs::remove_file(release.out.join(old));
    }
    let _ = std::fs::remove_file(&statement);
    let mut all = Vec::new();
    for path in artifacts(release)? {
        all.push((name(&path), sha256(&bytes(&path)?)));
    }
    if all.is_empty() {
        return Err("there are no artifacts".to_owned());
    }
    write(&statement, provenance::statement(release, &all)?)?;
    all.push((name(&statement), sha256(&bytes(&statement)?)));
    all.sort();
    let lines: String = all.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    let sums = release.out.join(SUMS);
    write(&sums, lines)?;
    match std::env::var(KEY) {
        Ok(_) => sign(release),
        Err(_) => {
            eprintln!("\n!!! NOT SIGNED: {KEY} is not set. {SUMS} has no signature.\n");
            Ok(Vec::new())
        }
    }
}

/// Compares the artifacts with their checksums, signs these, and checks the signature with the public half of the key; returns no
/// failures.
pub(super) fn sign(release: &Release) -> Result<Vec<String>, String> {
    let key = std::env::var(KEY).map_err(|_| format!("{KEY} is not set"))?;
    let check = ["--check", "--strict", "--quiet", SUMS];
    program("sha256sum").args(check).within(&release.out).run()?;
    let minisign = tools::minisign()?;
    // Outside the folder of the artifacts, and for this user only.
    let folder = release.out.with_file_name("signing");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let signed = sign_with(release, &key, &minisign, &folder);
    std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    signed.map(|()| Vec::new())
}

fn sign_with(release: &Release, key: &str, minisign: &Path, folder: &Path) -> Outcome {
    let (secret, public) = (folder.join("secret.key"), folder.join("public.key"));
    write(&secret, "")?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600))
            .map_err(|e| format!("{}: {e}", secret.display()))?;
    }
    write(&secret, format!("{}\n", key.trim_end()))?;
    program(minisign).args(["-R", "-s"]).args([&secret]).args(["-p"]).args([&public]).quiet()?;
    let comment = format!("holdall {} {}", release.version, release.commit);
    let sign = ["-S", "-W", "-m", SUMS, "-t", &comment, "-s"];
    program(minisign).args(sign).args([&secret]).within(&release.out).quiet()?;
    program(minisign).args(["-V", "-m", SUMS, "-p"]).args([&public]).within(&release.out).run()?;
    let public = String::from_utf8_lossy(&bytes(&public)?).into_owned();
    eprintln!("signed; the public key is {}", public.lines().nth(1).unwrap_or_default());
    Ok(())
}
