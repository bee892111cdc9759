use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::PathBuf;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::net::{TcpStream, UnixListener};
use tokio::process::Command;
use tokio_util::task::AbortOnDropHandle;

/// Routes to the loopback device of a test's network namespace. No interface has it, so that the service treats it as public.
pub const PUBLIC: &str = "93.184.216.34";
/// Address of the network namespace and an unused one in the same subnet. They belong to the machine or to its subnet, although
/// they are public.
pub const OWN: [&str; 2] = ["198.41.0.4", "198.41.0.5"];
const PRIVATE: [&str; 4] = ["10.11.12.13", "192.168.1.1", "169.254.169.254", "100.64.0.1"];
/// Skips these tests on machines that forbid namespaces.
const WITHOUT_NAMESPACES: &str = "KITFLEET_TEST_WITHOUT_NAMESPACES";

/// In new namespaces of these kinds.
///
/// # Panics
///
/// When this machine forbids namespaces and the variable to skip is not set.
pub async fn run_inside(kinds: &[&str], test: &str, environment: &[(&str, &OsStr)]) {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(kinds).kill_on_drop(true);
        if !nix::unistd::geteuid().is_root() {
            command.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        command
    };
    if !unshare().arg("true").status().await.is_ok_and(|status| status.success()) {
        let skip = std::env::var_os(WITHOUT_NAMESPACES).is_some();
        assert!(skip, "this machine forbids namespaces; set {WITHOUT_NAMESPACES}=1 to go without tests that need them");
        return;
    }
    let inside = unshare()
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .envs(environment.iter().copied())
        .output();
    let output = inside.await.expect("unshare runs");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "it ran: {said}");
    eprintln!("{complained}");
}

/// In its own mount namespace, in which [`small_disk`] can replace the temporary folder.
pub async fn run_on_small_disk(test: &str) {
    let folder = TempDir::new().expect("a folder");
    run_inside(&["--mount"], test, &[("TMPDIR", folder.path().as_os_str())]).await;
}

/// Mounted as the temporary folder, whose path is returned.
pub fn small_disk(mib: u32) -> PathBuf {
    let disk = std::env::temp_dir();
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(&disk);
    assert!(mount.status().expect("mount runs").success());
    disk
}

/// The network can reach only the database. The test configures it with [`furnish`].
pub async fn in_network_namespace(test: &str) {
    let folder = TempDir::new().expect("a folder");
    let database = std::env::var("KITFLEET_TEST_DATABASE_URL").expect("./ops/test sets KITFLEET_TEST_DATABASE_URL");
    let server: PgConnectOptions = database.parse().expect("a database URL");
    // A socket file can be reached from another network namespace. For a port, a relay provides a socket.
    let (there, relay) = if server.get_socket().is_some() {
        (database, None)
    } else {
        let socket = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).expect("a socket");
        let there = server.clone().socket(folder.path()).port(5432).to_url_lossy().to_string();
        (there, Some(AbortOnDropHandle::new(tokio::spawn(relay_to_database(server, socket)))))
    };
    run_inside(&["--net", "--mount"], test, &[("KITFLEET_TEST_DATABASE_URL", there.as_ref())]).await;
    drop(relay);
}

async fn relay_to_database(server: PgConnectOptions, sockets: UnixListener) {
    while let Ok((mut inside, _)) = sockets.accept().await {
        let address = (server.get_host().to_owned(), server.get_port());
        tokio::spawn(async move {
            let mut outside = TcpStream::connect(address).await?;
            tokio::io::copy_bidirectional(&mut inside, &mut outside).await
        });
    }
}

/// A public address, an own address and private addresses, and entries of the hosts file. Other names are resolved at port 53
/// of the loopback device. The returned folder contains the files.
pub fn furnish(names: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for (address, name) in names {
        writeln!(hosts, "{address} {name}").expect("text");
    }
    std::fs::write(folder.path().join("hosts"), hosts).expect("a file");
    std::fs::write(folder.path().join("resolv.conf"), "nameserver 127.0.0.1\n").expect("a file");
    let mut script = "set -e; ip link set lo up
        for file in hosts resolv.conf; do mount --bind $file /etc/$file; done
        # A display server of this network would take the socket of one outside for stale, and its place.
        mkdir -p /tmp/.X11-unix; mount -t tmpfs -o mode=1777 tmpfs /tmp/.X11-unix\n"
        .to_owned();
    writeln!(script, "ip route add local {PUBLIC}/32 dev lo").expect("text");
    // An address with a prefix on the loopback device makes the whole subnet local.
    writeln!(script, "ip address add {}/24 dev lo", OWN[0]).expect("text");
    for address in PRIVATE {
        writeln!(script, "ip address add {address}/32 dev lo").expect("text");
    }
    let done = std::process::Command::new("sh").args(["-c", &script]).current_dir(folder.path()).status();
    assert!(done.expect("sh runs").success(), "a network of its own needs iproute2");
    folder
}
