//! Debian's OpenVPN server.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;
use tokio::time::sleep;

use super::{FAR, FAR_6, Far, Site, run};

pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1194);

/// Marks a server that pushes no name server.
pub const WITHOUT_NAMES: &str = "# without names";

/// Certificate authority of the server and the clients.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub fn issue(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let mut params = CertificateParams::new(Vec::new()).expect("names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![purpose];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("a certificate").pem(), key.serialize_pem())
    }
}

pub fn block(name: &str, body: &str) -> String {
    format!("<{name}>\n{body}\n</{name}>\n")
}

#[derive(Clone, Copy)]
pub enum Guard {
    None,
    Auth,
    Crypt,
    CryptV2,
}

pub struct Server {
    pub program: Child,
    pub folder: TempDir,
    site: Option<Site>,
    pub far: Far,
    pub authority: Authority,
    pub profile: String,
}

impl Server {
    pub async fn start(proto: &str, guard: Guard, lines: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let authority = Authority::new();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
        let (certificate, key) = authority.issue("vpn-1", ExtendedKeyUsagePurpose::ServerAuth);
        write("ca", &authority.pem);
        write("cert", &certificate);
        write("key", &key);
        write("verify", "#!/bin/sh\n[ \"$(cat \"$1\")\" = \"$(printf 'alice\\ns3cret')\" ]\n");
        let mut permissions = fs::metadata(folder.path().join("verify")).expect("a file").permissions();
        permissions.set_mode(0o755);
        fs::set_permissions(folder.path().join("verify"), permissions).expect("a program");
        let (guarded, guards) = guarded(folder.path(), guard);
        let lines =
            if lines == WITHOUT_NAMES { String::new() } else { format!("push \"dhcp-option DNS {FAR}\"\n{lines}") };
        let there = folder.path().display();
        write(
            "config",
            &format!(
                "dev tun9\ndev-type tun\nproto {proto}\nlocal 127.0.0.1\nport 1194\nserver 10.66.0.0 255.255.255.0\nserver-ipv6 fd66::/64\n\
                 topology subnet\nifconfig-noexec\nroute-noexec\ndisable-dco\nca {there}/ca\ncert {there}/cert\nkey {there}/key\ndh none\nkeepalive 5 20\n\
                 script-security 2\nauth-user-pass-verify {there}/verify via-file\nverb 3\n{guards}{lines}\n"
            ),
        );
        let log = File::create(folder.path().join("log")).expect("a file");
        let program = Command::new("openvpn").args(["--config", &format!("{there}/config")]).stdout(log).spawn();
        let program = program.expect("openvpn, which egress/tests/servers installs");

        let (certificate, key) = authority.issue("customer", ExtendedKeyUsagePurpose::ClientAuth);
        let proto = if proto == "udp" { "udp" } else { "tcp" };
        let profile = format!(
            "client\ndev tun\nproto {proto}\nremote {} {}\nnobind\nremote-cert-tls server\nverify-x509-name 'O=Example, CN=vpn-1'\nauth-user-pass\n{}{}{}{guarded}",
            SERVER.ip(),
            SERVER.port(),
            block("ca", &authority.pem),
            block("cert", &certificate),
            block("key", &key),
        );
        let mut server = Self { program, folder, site: None, far: Far::new(), authority, profile };
        server.wait_for_log("Initialization Sequence Completed").await;
        run(&format!("ip link set tun9 netns {}", server.far.path()));
        server.far.there(|| {
            run(&format!("ip addr add {FAR}/24 dev tun9; ip addr add {FAR_6}/64 dev tun9 nodad; ip link set tun9 up"));
        });
        server.site = Some(Site::at(&server.far));
        server
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    pub async fn wait_for_log(&self, words: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.log().contains(words) {
            assert!(Instant::now() < deadline, "{words}: {}", self.log());
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.program.id().try_into().expect("a pid")), signal).expect("a signal");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Returns the lines for the profile, and those for the server's configuration.
pub fn guarded(folder: &Path, guard: Guard) -> (String, String) {
    let there = folder.display();
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a key");
    match guard {
        Guard::None => (String::new(), String::new()),
        Guard::Auth => {
            run(&format!("openvpn --genkey secret {there}/guard"));
            (
                "key-direction 1\nauth SHA256\n".to_owned() + &block("tls-auth", &read("guard")),
                format!("tls-auth {there}/guard 0\nauth SHA256\n"),
            )
        }
        Guard::Crypt => {
            run(&format!("openvpn --genkey secret {there}/guard"));
            (block("tls-crypt", &read("guard")), format!("tls-crypt {there}/guard\n"))
        }
        Guard::CryptV2 => {
            run(&format!(
                "openvpn --genkey tls-crypt-v2-server {there}/guard; openvpn --tls-crypt-v2 {there}/guard --genkey tls-crypt-v2-client {there}/client"
            ));
            (block("tls-crypt-v2", &read("client")), format!("tls-crypt-v2 {there}/guard\n"))
        }
    }
}
