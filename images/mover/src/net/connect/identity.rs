//! Who we are and who the peer must be: per-job certificates, TLS 1.3 only.

use std::io;
use std::path::Path;
use std::sync::Arc;

use fairlead_protocol::name::job_is_valid;
use fairlead_protocol::opening::{
    Nonce, Opening, OpeningError, OpeningKey, CONNECTION_ID_BYTES, NONCE_BYTES, OPENING_BYTES,
};
use fairlead_protocol::{Fault, Reason};
use rustls::client::UnbufferedClientConnection;
use rustls::crypto::{aws_lc_rs, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    SupportedCipherSuite,
};
use time::OffsetDateTime;
use webpki::{EndEntityCert, KeyUsage};

/// Application protocol of data connections (RFC 7301): QUIC asks for one.
const QUIC_ALPN: &[u8] = b"fairlead-data";

/// One end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Sender,
    Receiver,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

/// The URI in a certificate of a job attempt's role.
pub(crate) fn uri(job: &str, attempt: u32, role: Role) -> String {
    format!("fairlead://job/{job}/{attempt}/{}", role.name())
}

/// The DNS name in a certificate of a job's role.
pub(crate) fn dns_name(job: &str, role: Role) -> String {
    format!("{}.{job}.fairlead.internal", role.name())
}

/// Our identity, ready for connections.
pub(crate) struct Identity {
    pub(crate) job: String,
    pub(crate) attempt: u32,
    role: Role,
    /// Of each authority in `ca.crt`, in that order; never empty.
    opening_keys: Vec<OpeningKey>,
    client: Option<Arc<ClientConfig>>,
    server: Option<Arc<ServerConfig>>,
}

impl Identity {
    /// Loads `ca.crt`, `tls.crt`, `tls.key` and checks that they are of `role` (and of the job and attempt, if given).
    pub(crate) fn load(directory: &Path, role: Role, job: Option<&str>, attempt: Option<u32>) -> Result<Self, Fault> {
        let invalid = |file: &str, why: String| {
            let path = directory.join(file);
            Fault::new(
                Reason::CredentialsInvalid,
                format!("{}: {why}; mount the job's credentials there", path.display()),
            )
        };
        let certificates = |file: &str| {
            CertificateDer::pem_file_iter(directory.join(file))
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| invalid(file, error.to_string()))
        };
        let mut roots = RootCertStore::empty();
        let authorities = certificates("ca.crt")?;
        if authorities.is_empty() {
            return Err(invalid("ca.crt", "holds no certificate".into()));
        }
        let opening_keys = authorities.iter().map(|authority| OpeningKey::new(authority)).collect();
        for authority in authorities {
            roots.add(authority).map_err(|error| invalid("ca.crt", error.to_string()))?;
        }
        let chain = certificates("tls.crt")?;
        let key = PrivateKeyDer::from_pem_file(directory.join("tls.key"))
            .map_err(|error| invalid("tls.key", error.to_string()))?;
        let own = chain.first().ok_or_else(|| invalid("tls.crt", "holds no certificate".into()))?;
        let (own_job, own_attempt) = parse_uri(own, role)
            .ok_or_else(|| invalid("tls.crt", format!("is no certificate of a job's {}", role.name())))?;
        if job.is_some_and(|job| job != own_job) || attempt.is_some_and(|attempt| attempt != own_attempt) {
            return Err(invalid(
                "tls.crt",
                format!("is of job {own_job}, attempt {own_attempt}, not of the one given"),
            ));
        }
        let roots = Arc::new(roots);
        check_validity(own, role, &roots).map_err(|(reason, why)| Fault { reason, ..invalid("tls.crt", why) })?;
        let tls = |error: rustls::Error| invalid("tls.crt", error.to_string());
        let (mut client, mut server) = (None, None);
        match role {
            Role::Sender => client = Some(Arc::new(client_config(roots, chain, key).map_err(tls)?)),
            Role::Receiver => {
                server = Some(Arc::new(server_config(roots, chain, key).map_err(|why| invalid("ca.crt", why))?))
            }
        }
        Ok(Self { job: own_job, attempt: own_attempt, role, opening_keys, client, server })
    }

    /// A client connection that accepts only this job's receiver.
    pub(crate) fn connect(&self) -> Result<ClientConnection, Fault> {
        let config = self.client.clone().ok_or_else(|| internal("the receiver does not connect"))?;
        let name =
            ServerName::try_from(dns_name(&self.job, Role::Receiver)).map_err(|error| internal(&error.to_string()))?;
        ClientConnection::new(config, name).map_err(|error| internal(&error.to_string()))
    }

    /// As `connect`, for a data connection.
    pub(crate) fn connect_data(&self) -> Result<UnbufferedClientConnection, Fault> {
        let config = self.client.clone().ok_or_else(|| internal("the receiver does not connect"))?;
        let name =
            ServerName::try_from(dns_name(&self.job, Role::Receiver)).map_err(|error| internal(&error.to_string()))?;
        UnbufferedClientConnection::new(config, name).map_err(|error| internal(&error.to_string()))
    }

    /// The name by which connections ask for the job's receiver.
    pub(crate) fn receiver_name(&self) -> String {
        dns_name(&self.job, Role::Receiver)
    }

    /// As `connect`, for data connections of QUIC.
    pub(crate) fn quic_client(&self) -> Result<Arc<ClientConfig>, Fault> {
        let config = self.client.as_ref().ok_or_else(|| internal("the receiver does not connect"))?;
        let mut config = (**config).clone();
        config.alpn_protocols = vec![QUIC_ALPN.to_vec()];
        Ok(Arc::new(config))
    }

    /// As `accept`, for data connections of QUIC.
    pub(crate) fn quic_server(&self) -> Result<Arc<ServerConfig>, Fault> {
        let config = self.server.as_ref().ok_or_else(|| internal("the sender does not accept"))?;
        let mut config = (**config).clone();
        config.alpn_protocols = vec![QUIC_ALPN.to_vec()];
        Ok(Arc::new(config))
    }

    /// The connection ID of a first packet to this job's receiver.
    pub(crate) fn connection_id(&self) -> io::Result<[u8; CONNECTION_ID_BYTES]> {
        let key = self.opening_keys.first().ok_or_else(|| io::Error::other("there is no authority"))?;
        Ok(key.connection_id(random::<NONCE_BYTES>()?))
    }

    /// The nonce of a first packet's connection ID, if whoever sent it has credentials of one of our authorities.
    pub(crate) fn check_connection_id(&self, id: &[u8]) -> Result<Nonce, OpeningError> {
        let mut checked = self.opening_keys.iter().map(|key| key.check_connection_id(id));
        checked.find(Result::is_ok).unwrap_or(Err(OpeningError::Tag))
    }

    /// As `accept`, for a data connection.
    pub(crate) fn accept_data(&self) -> Result<UnbufferedServerConnection, Fault> {
        let config = self.server.clone().ok_or_else(|| internal("the sender does not accept"))?;
        UnbufferedServerConnection::new(config).map_err(|error| internal(&error.to_string()))
    }

    /// A server connection that accepts only clients with a certificate of the job's authority.
    pub(crate) fn accept(&self) -> Result<ServerConnection, Fault> {
        let config = self.server.clone().ok_or_else(|| internal("the sender does not accept"))?;
        ServerConnection::new(config).map_err(|error| internal(&error.to_string()))
    }

    /// The first bytes of a connection to this job's receiver.
    pub(crate) fn open(&self, opening: Opening) -> io::Result<[u8; OPENING_BYTES]> {
        let key = self.opening_keys.first().ok_or_else(|| io::Error::other("there is no authority"))?;
        Ok(key.seal(opening, random::<NONCE_BYTES>()?))
    }

    /// What a connection is for, if whoever made it has credentials of one of our authorities.
    pub(crate) fn check_opening(&self, bytes: &[u8; OPENING_BYTES]) -> Result<(Opening, Nonce), OpeningError> {
        let mut result = Err(OpeningError::Foreign);
        for key in &self.opening_keys {
            result = key.open(bytes);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Checks that a peer's certificate is of our job and attempt and of the other role.
    pub(crate) fn check_peer(&self, certificates: Option<&[CertificateDer<'_>]>) -> Result<(), String> {
        let expected = uri(&self.job, self.attempt, self.role.other());
        let certificate = certificates.and_then(<[_]>::first).ok_or("the peer presented no certificate")?;
        let certificate = EndEntityCert::try_from(certificate).map_err(|error| error.to_string())?;
        let mut names = certificate.valid_uri_names();
        if names.any(|name| name == expected) {
            Ok(())
        } else {
            Err(format!("the peer's certificate is not of {expected}"))
        }
    }
}

/// Checks a certificate's validity by this host's clock. Whatever else is wrong with it shows in the handshake.
fn check_validity(certificate: &CertificateDer<'_>, role: Role, roots: &RootCertStore) -> Result<(), (Reason, String)> {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Ok(()) };
    let usage = match role {
        Role::Sender => KeyUsage::client_auth(),
        Role::Receiver => KeyUsage::server_auth(),
    };
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    match certificate.verify_for_usage(algorithms, &roots.roots, &[], UnixTime::now(), usage, None, None) {
        Err(webpki::Error::CertNotValidYet { time, not_before }) => {
            Err((Reason::ClocksDiffer, format!("{}: set the clock of this host, or", not_valid_yet(time, not_before))))
        }
        Err(webpki::Error::CertExpired { time, not_after }) => Err((
            Reason::CredentialsInvalid,
            format!("{}: make new credentials, or set the clock of this host, and", expired(time, not_after)),
        )),
        _ => Ok(()),
    }
}

fn not_valid_yet(now: UnixTime, not_before: UnixTime) -> String {
    format!("the clock here says {}, and the certificate is valid from {} on", shown(now), shown(not_before))
}

fn expired(now: UnixTime, not_after: UnixTime) -> String {
    format!("the clock here says {}, and the certificate was valid until {}", shown(now), shown(not_after))
}

/// A moment as people write it, in UTC.
fn shown(moment: UnixTime) -> String {
    let moment = i64::try_from(moment.as_secs()).ok().and_then(|secs| OffsetDateTime::from_unix_timestamp(secs).ok());
    let Some(moment) = moment else { return "a time that no calendar has".to_owned() };
    let (year, month, day) = moment.to_calendar_date();
    let (hour, minute, second) = moment.to_hms();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", u8::from(month))
}

/// Why a handshake failed, if that was for what time it is at either end.
pub(crate) fn clock_refusal(error: &io::Error) -> Option<String> {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(NotValidYetContext { time, not_before }) => {
            Some(format!("its certificate does not hold by this host's clock: {}", not_valid_yet(*time, *not_before)))
        }
        rustls::Error::InvalidCertificate(ExpiredContext { time, not_after }) => {
            Some(format!("its certificate does not hold by this host's clock: {}", expired(*time, *not_after)))
        }
        rustls::Error::InvalidCertificate(Expired | NotValidYet) => {
            Some(format!("its certificate does not hold by this host's clock, which says {}", shown(UnixTime::now())))
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => Some(format!(
            "our certificate, which holds by this host's clock ({}), does not hold by the other end's",
            shown(UnixTime::now())
        )),
        _ => None,
    }
}

fn internal(why: &str) -> Fault {
    Fault::new(Reason::InternalError, why)
}

fn parse_uri(certificate: &CertificateDer<'_>, role: Role) -> Option<(String, u32)> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let mut names = certificate.valid_uri_names();
    names.find_map(|name| {
        let mut parts = name.strip_prefix("fairlead://job/")?.split('/');
        let (job, attempt, named_role) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        let whole = parts.next().is_none() && named_role == role.name() && job_is_valid(job);
        whole.then(|| (job.to_owned(), attempt))
    })
}

/// The provider, with the fastest cipher suite of this processor first. All are of the strength that TLS 1.3 asks for.
fn provider() -> Arc<CryptoProvider> {
    #[cfg(target_arch = "x86_64")]
    let has_aes = std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has_aes = false;
    let cipher_suites = suites(has_aes).to_vec();
    Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

fn suites(has_aes: bool) -> [SupportedCipherSuite; 3] {
    use aws_lc_rs::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256};
    if has_aes {
        [TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256]
    } else {
        [TLS13_CHACHA20_POLY1305_SHA256, TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384]
    }
}

/// Random bytes that nobody can foretell.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = aws_lc_rs::default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system yields no random bytes"))?;
    Ok(bytes)
}

fn client_config(
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

fn server_config(
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, String> {
    let provider = provider();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier.map_err(|error| error.to_string())?)
        .with_single_cert(chain, key)
        .map_err(|error| error.to_string())?;
    // Data streams flow one way only: tickets would wait in the sender's socket, unread.
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Whether an I/O error of a handshake is a refusal of certificates rather than a broken path.
pub(crate) fn refusal(error: &io::Error) -> Option<String> {
    let tls = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match tls {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::AlertReceived(_)
        | rustls::Error::NoCertificatesPresented => Some(tls.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::CertificateError;
    use std::time::Duration;

    #[test]
    fn a_handshake_that_failed_for_what_time_it_is_tells_both_times() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let (noon, one) = (at(1_767_268_800), at(1_767_272_400));
        for (error, told) in [
            (
                rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { time: noon, not_before: one }),
                "says 2026-01-01T12:00:00Z, and the certificate is valid from 2026-01-01T13:00:00Z on",
            ),
            (
                rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { time: one, not_after: noon }),
                "says 2026-01-01T13:00:00Z, and the certificate was valid until 2026-01-01T12:00:00Z",
            ),
            (rustls::Error::AlertReceived(AlertDescription::CertificateExpired), "does not hold by the other end's"),
        ] {
            let why = clock_refusal(&io::Error::other(error)).unwrap();
            assert!(why.contains(told), "{why}");
        }
        let other = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert_eq!(clock_refusal(&io::Error::other(other)), None);
        assert_eq!(clock_refusal(&io::Error::from(io::ErrorKind::BrokenPipe)), None);
    }

    #[test]
    fn the_library_is_built_without_a_source_of_entropy_that_takes_its_time() {
        assert_eq!(
            option_env!("AWS_LC_SYS_NO_JITTER_ENTROPY"),
            Some("1"),
            "build where Cargo finds .cargo/config.toml"
        );
    }
}
