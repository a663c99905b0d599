//! The environment of a runner's process: variables for libraries, folders and devices, and those that the caller
//! passes. Other variables of the caller are not passed on, because they may contain secrets. Section 2 of
//! `docs/spec/runner.md`.

use crate::platform::{self, is_same_variable};
use crate::rules::ENVIRONMENT;
use holdall::Result;
use holdall::error::Escape as _;
use std::ffi::{OsStr, OsString};

/// A variable for a runner's process, with its value, or `None` for the value in the caller's environment.
pub(crate) type Variable = (OsString, Option<OsString>);

/// Variables of the caller that every process gets.
#[rustfmt::skip]
const PASSED_NAMES: &[&str] = &[
    // The user and the system.
    "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "LOGNAME",
    "NO_COLOR", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME",
    // Python, and the environments that it is installed in.
    "CONDA_PREFIX", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONHOME", "PYTHONMALLOC", "PYTHONNOUSERSITE",
    "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONSAFEPATH", "PYTHONUSERBASE", "PYTHONWARNINGS", "VIRTUAL_ENV",
    // Caches and computing options of frameworks.
    "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TORCH_HOME", "TRANSFORMERS_CACHE", "TRANSFORMERS_OFFLINE",
    "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF", "TF_CPP_MIN_LOG_LEVEL",
    "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_XLA_FLAGS",
];

/// Prefixes of variables that every process gets, unless the name contains a word of [`SECRET_WORDS`].
const PASSED_PREFIXES: &[&str] = &[
    "LC_",
    "BLIS_",
    "CUDA_",
    "GOMP_",
    "HIP_",
    "HSA_",
    "JAX_",
    "KMP_",
    "MKL_",
    "NCCL_",
    "NUMEXPR_",
    "OMP_",
    "OPENBLAS_",
    "PYTORCH_CUDA_",
    "ROCR_",
    "VECLIB_",
    "XLA_",
];

/// Words that suggest a secret if the name of a variable contains one.
const SECRET_WORDS: &[&str] =
    &["AUTH", "CREDENTIAL", "CREDENTIALS", "KEY", "PASS", "PASSWORD", "PASSWD", "SECRET", "TOKEN"];

/// Returns the environment of a runner's process: the variables of the caller's environment `caller` that every
/// process gets, and those in `passed`.
///
/// # Errors
/// Returns [`ENVIRONMENT`] if a passed variable is invalid or not set.
pub(crate) fn process_environment(
    caller: impl Iterator<Item = (OsString, OsString)>,
    passed: &[Variable],
) -> Result<Vec<(OsString, OsString)>> {
    let caller: Vec<(OsString, OsString)> = caller.collect();
    let mut out: Vec<_> =
        caller.iter().filter(|(name, _)| is_passed_by_default(name)).cloned().collect();
    for (name, value) in passed {
        check(name, value.as_deref())?;
        let shown = name.to_string_lossy();
        let value = match value {
            Some(value) => value.clone(),
            None => {
                let found = caller
                    .iter()
                    .find(|(other, _)| is_same_variable(other, name))
                    .map(|(_, value)| value.clone());
                let unset = || format!("the variable `{}` is not set", shown.escaped());
                found.ok_or_else(|| ENVIRONMENT.broken(unset()))?
            }
        };
        out.retain(|(other, _)| !is_same_variable(other, name));
        out.push((name.clone(), value));
    }
    Ok(out)
}

fn check(name: &OsStr, value: Option<&OsStr>) -> Result<()> {
    let shown = name.to_string_lossy();
    if name.is_empty() || name.as_encoded_bytes().iter().any(|b| matches!(b, b'=' | 0)) {
        let e = format!("`{}` is not a valid variable name", shown.escaped());
        return Err(ENVIRONMENT.broken(e));
    }
    if value.is_some_and(|value| value.as_encoded_bytes().contains(&0)) {
        let e = format!("the value for the variable `{}` has a zero byte", shown.escaped());
        return Err(ENVIRONMENT.broken(e));
    }
    Ok(())
}

/// Returns `true` if every process gets the variable.
fn is_passed_by_default(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_secret = || name.split('_').any(|word| SECRET_WORDS.contains(&word));
    let is = |other: &&str| is_same_variable(OsStr::new(other), OsStr::new(name));
    PASSED_NAMES.iter().chain(platform::PASSED_NAMES).any(is)
        || PASSED_PREFIXES.iter().any(|p| name.starts_with(p)) && !is_secret()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(caller: &[(&str, &str)], passed: &[(&str, Option<&str>)]) -> Result<Vec<String>> {
        let caller = caller.iter().map(|(name, value)| (name.into(), value.into()));
        let passed: Vec<Variable> =
            passed.iter().map(|(name, value)| (name.into(), value.map(OsString::from))).collect();
        let mut all: Vec<String> = process_environment(caller, &passed)?
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        all.sort();
        Ok(all)
    }

    #[test]
    fn secrets_are_not_passed_on() {
        let caller = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("OMP_NUM_THREADS", "3"),
            ("CUDA_VISIBLE_DEVICES", "0"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("AWS_PROFILE", "x"),
            ("HF_TOKEN", "x"),
            ("HF_HOME", "/hf"),
            ("NVIDIA_API_KEY", "x"),
            ("TF_VAR_password", "x"),
            ("CUDA_API_TOKEN", "x"),
            ("SSH_AUTH_SOCK", "x"),
            ("PIP_INDEX_URL", "https://me:secret@host"),
            ("CARGO_REGISTRY_TOKEN", "x"),
        ];
        let usual =
            ["CUDA_VISIBLE_DEVICES=0", "HF_HOME=/hf", "LC_ALL=C", "OMP_NUM_THREADS=3", "PATH=/bin"];
        assert_eq!(names(&caller, &[]).unwrap(), usual);
        let is_one = is_same_variable(OsStr::new("path"), OsStr::new("PATH"));
        assert_eq!(names(&[("path", "x")], &[]).unwrap().len(), usize::from(is_one));
        let passed = [("HF_TOKEN", None), ("PATH", Some("/opt")), ("EMPTY", Some(""))];
        let found = names(&caller, &passed).unwrap();
        assert!(found.contains(&"HF_TOKEN=x".to_owned()) && found.contains(&"EMPTY=".to_owned()));
        assert!(found.contains(&"PATH=/opt".to_owned()) && found.len() == 7, "{found:?}");
    }

    #[test]
    fn invalid_variables_are_refused() {
        for (name, value) in [("", None), ("A=B", Some("x")), ("A", None), ("A", Some("x\0"))] {
            let e = names(&[("B", "x")], &[(name, value)]).unwrap_err();
            assert_eq!(e.code(), "run/environment", "{name:?} {value:?}");
        }
    }
}
