//! Rules about object stores and hubs. Every build lists them, so that a code has the same meaning in all builds.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The build has no support for object stores.
    pub NOT_BUILT: Unsupported "stores/not-built"
        "Addresses of object stores are opened by builds with the feature `stores`."
        hint "download the file first";
    /// An invalid address of an object.
    pub ADDRESS: Misuse "stores/address"
        "An object's address is `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, `az://CONTAINER/BLOB` or `hf://OWNER/NAME[@REVISION]/PATH`.";
    /// An unknown option, or an invalid value.
    pub OPTION: Misuse "stores/option"
        "Options of object stores have known names and valid values.";
    /// Credentials that cannot be loaded.
    pub PROFILE: Misuse "stores/profile"
        "The environment and the profile files have credentials of a supported kind.";
    /// Credentials that the store does not accept.
    pub CREDENTIALS: Misuse "stores/credentials"
        "A store accepts the credentials that a request is signed with, and they have not expired."
        hint "check the environment variables, the profile or the options with the credentials";
    /// Access denied.
    pub DENIED: Io "stores/denied"
        "The caller has permission to read the object."
        hint "use credentials with permission, or ask the owner of the bucket for it";
    /// A bucket, container or repository that does not exist.
    pub NO_BUCKET: NotFound "stores/no-bucket"
        "The bucket, container or repository of an address exists.";
    /// An object that does not exist.
    pub NO_OBJECT: NotFound "stores/no-object" "The object of an address exists.";
    /// A bucket in another region.
    pub REGION: Misuse "stores/region"
        "A request for a bucket goes to the region that the bucket is in."
        hint "set the region with the option `region` or the environment variable `AWS_REGION`";
    /// A response that cannot be parsed.
    pub ANSWER: Io "stores/answer"
        "A store's response follows its interface: XML or JSON of at most 16 MiB, without document types or custom entities.";
    /// A store that cannot be written to.
    pub READ_ONLY: Unsupported "stores/read-only"
        "Of object stores, S3, Google Cloud Storage and Azure can be written to."
        hint "write a file, and upload it with `hf upload`";
    /// Too many objects below a prefix.
    pub MANY: Limit "stores/many"
        "A listed prefix has at most `Limits::files` objects."
        remedies [RaiseLimit { limit: "files", at_least: None }];
}
