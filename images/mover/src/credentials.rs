//! Credentials for transfers by hand: an authority that is forgotten at once, and a certificate for each end.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use time::{Duration, OffsetDateTime};

use crate::net::connect::identity::{dns_name, uri, Role};

/// Why credentials were not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    /// A file could not be written.
    #[error("{0}: {1}; name a folder that is writable and holds no credentials yet")]
    File(String, io::Error),
    /// A key or certificate could not be made.
    #[error("a certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// Writes `sender/` and `receiver/` below `directory`, each with `ca.crt`, `tls.crt` and `tls.key`.
pub(crate) fn make(directory: &Path, job: &str, attempt: u32, now: OffsetDateTime) -> Result<(), CredentialsError> {
    let mut authority = params(now);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority.distinguished_name.push(DnType::CommonName, format!("fairlead job {job} attempt {attempt}"));
    let authority_key = KeyPair::generate()?;
    let root = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    for role in [Role::Sender, Role::Receiver] {
        let mut end = params(now);
        end.distinguished_name.push(DnType::CommonName, format!("fairlead {}", role.name()));
        end.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        end.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        end.subject_alt_names = vec![
            SanType::URI(Ia5String::try_from(uri(job, attempt, role))?),
            SanType::DnsName(Ia5String::try_from(dns_name(job, role))?),
        ];
        let key = KeyPair::generate()?;
        let certificate = end.signed_by(&key, &issuer)?.pem();
        let folder = directory.join(role.name());
        let failed = |error| CredentialsError::File(folder.display().to_string(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        for (name, content) in [("ca.crt", &root), ("tls.crt", &certificate), ("tls.key", &key.serialize_pem())] {
            write(&folder.join(name), content)?;
        }
    }
    Ok(())
}

fn params(now: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(30);
    params
}

fn write(path: &Path, content: &str) -> Result<(), CredentialsError> {
    let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    open.and_then(|mut file| file.write_all(content.as_bytes()))
        .map_err(|error| CredentialsError::File(path.display().to_string(), error))
}
