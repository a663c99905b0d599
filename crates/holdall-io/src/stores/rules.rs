//! Rules about object stores and hubs. They are listed in every build, so that a code means the same in all of them.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// This build cannot.
    pub NOT_BUILT: Unsupported "stores/not-built"
        "Addresses of object stores are opened by builds with the feature `stores`."
        hint "download the file first";
    /// Not the address of an object.
    pub ADDRESS: Misuse "stores/address"
        "An object's address is `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, `az://CONTAINER/BLOB` or `hf://OWNER/NAME[@REVISION]/PATH`.";
    /// An option that does not exist.
    pub OPTION: Misuse "stores/option"
        "Options of object stores have known names and valid values.";
    /// Keys that cannot be had.
    pub PROFILE: Misuse "stores/profile"
        "The environment, and the profile files that it names, give credentials in a form that is known.";
    /// Keys that the store does not take.
    pub CREDENTIALS: Misuse "stores/credentials"
        "A store accepts the credentials that a request is signed with, and they have not expired."
        hint "look at the environment variables, the profile or the options that the credentials come from";
    /// Who asks may not.
    pub DENIED: Io "stores/denied"
        "The caller has permission to read the object."
        hint "use credentials that may, or have the owner of the bucket allow it";
    /// No bucket.
    pub NO_BUCKET: NotFound "stores/no-bucket"
        "The bucket, container or repository of an address exists.";
    /// No object.
    pub NO_OBJECT: NotFound "stores/no-object" "The object of an address exists.";
    /// In another region.
    pub REGION: Misuse "stores/region"
        "A request for a bucket goes to the region that the bucket is in."
        hint "say the region with the option `region` or the environment variable `AWS_REGION`";
    /// An answer that cannot be read.
    pub ANSWER: Io "stores/answer"
        "A store's response follows its interface: XML or JSON of at most 16 MiB, without document types or custom entities.";
    /// Nothing is written there.
    pub READ_ONLY: Unsupported "stores/read-only"
        "Of object stores, S3, Google Cloud Storage and Azure can be written to."
        hint "write a file, and upload it with `hf upload`";
    /// Too many objects.
    pub MANY: Limit "stores/many"
        "At most `Limits::files` objects have the prefix that is listed."
        remedies [RaiseLimit { limit: "files", at_least: None }];
}
