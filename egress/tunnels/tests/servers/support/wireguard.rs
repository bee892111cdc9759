//! Debian's wireguard-go.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use boringtun::x25519::{PublicKey, StaticSecret};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::ProcError;
use procfs::process::{Process, Task};
use tokio::time::sleep;

use super::{FAR, FAR_6, Far, Site, run};

pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 51820);

pub struct Server {
    program: Child,
    pub site: Site,
    pub far: Far,
    pub private_key: [u8; 32],
    public_key: PublicKey,
    pub preshared_key: [u8; 32],
}

impl Server {
    pub async fn start() -> Self {
        let far = Far::new();
        let socket = Path::new("/var/run/wireguard/wg0.sock");
        // A killed server leaves its socket.
        let _ = std::fs::remove_file(socket);
        let program = Command::new("wireguard-go")
            .args(["-f", "wg0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("wireguard-go, which egress/tests/servers installs");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !socket.exists() {
            assert!(Instant::now() < deadline, "wireguard-go listens");
            sleep(Duration::from_millis(10)).await;
        }
        let [server, private_key, preshared_key] = rand::random::<[[u8; 32]; 3]>();
        let mut settings = format!("set=1\nprivate_key={}\nlisten_port={}\n", hex(&server), SERVER.port());
        let own = PublicKey::from(&StaticSecret::from(private_key));
        write!(settings, "public_key={}\npreshared_key={}\n", hex(own.as_bytes()), hex(&preshared_key)).expect("text");
        settings.push_str("allowed_ip=10.66.0.2/32\nallowed_ip=fd66::2/128\n\n");
        let mut uapi = UnixStream::connect(socket).expect("wireguard-go's socket");
        uapi.write_all(settings.as_bytes()).expect("settings");
        let mut reply = [0; 8];
        uapi.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"errno=0\n");
        run(&format!("ip link set wg0 netns {}", far.path()));
        far.there(|| {
            run(&format!(
                "ip addr add {FAR}/24 dev wg0; ip addr add {FAR_6}/64 dev wg0 nodad; ip link set wg0 mtu 1420 up"
            ));
        });
        let site = Site::at(&far);
        let public_key = PublicKey::from(&StaticSecret::from(server));
        Self { program, site, far, private_key, public_key, preshared_key }
    }

    pub fn file(&self) -> String {
        format!(
            "[Interface]\nPrivateKey = {}\nAddress = 10.66.0.2/32, fd66::2/128\nDNS = {FAR}\n\
             [Peer]\nPublicKey = {}\nPresharedKey = {}\nAllowedIPs = 10.66.0.0/24, fd66::/64\nEndpoint = {SERVER}\n",
            STANDARD.encode(self.private_key),
            STANDARD.encode(self.public_key.as_bytes()),
            STANDARD.encode(self.preshared_key),
        )
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("a signal");
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.program.id().try_into().expect("a pid"))
    }

    /// All its threads are stopped.
    pub async fn stopped(&self) {
        let process = Process::new(self.pid().as_raw()).expect("the server");
        let deadline = Instant::now() + Duration::from_secs(10);
        let is_running =
            |task: Result<Task, ProcError>| task.and_then(|task| task.stat()).is_ok_and(|stat| stat.state != 'T');
        while process.tasks().expect("its threads").any(is_running) {
            assert!(Instant::now() < deadline, "it stops");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text");
        text
    })
}
