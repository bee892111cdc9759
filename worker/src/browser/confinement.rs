//! Isolation of browsers from the machine and from each other.
//!
//! An attacker who controls a process of a browser has all its permissions. The family (host, network process, web processes
//! and display) therefore runs in bubblewrap. It sees its own folder and the machine's programs, libraries, fonts and
//! certificates. Its network is a separate loopback, where the socket of its guard is the only route to the internet. Inside,
//! WebKit confines its web processes with bubblewrap again.
//!
//! A worker that runs as root runs each family as a separate user ID (`user_ids.rs`), by two calls of bubblewrap: only root can
//! mount files that other users cannot read, so the outer call runs as root, and the inner one creates the namespaces as the
//! family's user. Parts of a `/proc` that root mounts are masked, and the kernel then permits no new `/proc` inside, which
//! WebKit's own sandbox needs. Where only root can create namespaces, one call as root creates everything, and WebKit's own
//! sandbox is disabled.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitfleet_host_protocol::EXTENSION;
use nix::unistd::geteuid;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::StartError;
use super::directories::BrowserDirectory;
use super::processes::Spawner;
use crate::config::Sandbox;

/// For an unconfined family. The other variables may hold secrets.
const INHERITED: [&str; 6] = ["PATH", "HOME", "LD_LIBRARY_PATH", "FONTCONFIG_FILE", "FONTCONFIG_PATH", "TMPDIR"];

const FOLDER: &str = "/session";

const HOST: &str = "/kitfleet-host";
const KEEPER: &str = "/kitfleet-keeper";

/// WebKit loads every library of the folder, and shows it to web processes in its own sandbox.
const EXTENSIONS: &str = "/kitfleet-extensions";

/// Beside the folder of the host. A build puts the extension beside the host.
const INSTALLED_EXTENSIONS: &str = "lib/kitfleet";

/// Read-only, if they exist.
const SHOWN: [&str; 20] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/fonts",
    "/etc/gtk-3.0",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/var/cache/fontconfig",
];

/// Neighbours of the certificates stay hidden. WebKit's sandbox binds those of `/sys` for web processes.
const EMPTY: [&str; 12] = [
    "/etc",
    "/etc/pki",
    "/etc/pki/tls",
    "/etc/ssl",
    "/var",
    "/var/cache",
    "/sys",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
];

/// In memory, with their maximum size in bytes.
const SCRATCH: [(&str, &str); 3] = [("/tmp", "67108864"), ("/run", "16777216"), ("/dev/shm", "268435456")];

/// Complete, except for variables that the host sets.
const ENVIRONMENT: [(&str, &str); 3] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"), ("HOME", FOLDER), ("LANG", "C.UTF-8")];

/// Tests the kernel features of WebKit's own sandbox: namespaces, and mounts inside them.
const PAGES: &str =
    "bwrap --die-with-parent --unshare-pid --unshare-uts --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp true";

/// WebKit is linked with this library but does not use it. Each process has already loaded the replacement, and the loader
/// loads no file twice. This avoids the lookup of 31,000 symbols, a third of the work at the start of a WebKit process.
const UNUSED_VOICE: &str = "libflite_cmu_time_awb.so.1";
const SHOWN_INSTEAD: &str = "libflite.so.1";

/// A probe takes milliseconds.
const PROBED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    walls: Option<SandboxUser>,
    /// WebKit's own sandbox is used.
    pages: bool,
    voiceless: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SandboxUser {
    User,
    /// User ID of the family's folder. The worker runs as root.
    Root,
    /// Like `Root`, where only root can create namespaces. WebKit's own sandbox is not possible.
    RootAlone,
}

impl Confinement {
    /// Tries in a folder of its own, and logs the result.
    ///
    /// # Errors
    ///
    /// When confinement is required and not possible.
    pub async fn find(
        spawner: &Spawner,
        wanted: Sandbox,
        host: &Path,
        folder: &BrowserDirectory,
    ) -> Result<Self, StartError> {
        let (mut found, mut obstacles) = (Self { walls: None, pages: false, voiceless: false }, Vec::new());
        let kinds: &[SandboxUser] = match (geteuid().is_root(), folder.user()) {
            (false, _) => &[SandboxUser::User],
            (true, Some(_)) => &[SandboxUser::Root, SandboxUser::RootAlone],
            (true, None) => {
                obstacles.push("the user namespace of the worker maps no user ids for browsers".to_owned());
                &[]
            }
        };
        for walls in kinds {
            let tried = Self { walls: Some(*walls), ..found.clone() };
            let Some(obstacle) = tried.obstacle(spawner, host, folder).await else {
                found = tried;
                break;
            };
            obstacles.push(obstacle);
        }
        if !found.is_whole() {
            let obstacle = obstacles.join("; ");
            if wanted == Sandbox::Required {
                return Err(StartError::Sandbox(obstacle));
            }
            tracing::warn!(
                obstacle,
                "browsers run WITHOUT CONFINEMENT: an attacker who controls a browser has every permission of this worker. \
                 Install `bubblewrap` and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; in a container, \
                 seccomp and AppArmor profiles that allow them). worker.sandbox = \"required\" turns this into an error"
            );
        }
        let pages: Vec<_> = PAGES.split_whitespace().collect();
        match probe(spawner, found.bubblewrap(host, folder, None), &pages).await {
            None => found.pages = true,
            Some(obstacle) => tracing::warn!(obstacle, "web processes run without the sandbox of WebKit"),
        }
        if found.is_whole() {
            // The loader resolves all symbols of the host's libraries at its start, so this probe fails if WebKit does
            // use the speech library.
            let without = Self { voiceless: true, ..found.clone() };
            if probe(spawner, without.bubblewrap(host, folder, None), &[HOST, "--version"]).await.is_none() {
                found = without;
            }
            tracing::info!(web_processes = found.pages, "each browser is confined to its own folder");
        }
        Ok(found)
    }

    async fn obstacle(&self, spawner: &Spawner, host: &Path, folder: &BrowserDirectory) -> Option<String> {
        if let Err(error) = self.hand_over(&folder.session(), folder) {
            return Some(error.to_string());
        }
        probe(spawner, self.bubblewrap(host, folder, None), &[KEEPER, "--version"]).await
    }

    pub fn is_whole(&self) -> bool {
        self.walls.is_some()
    }

    /// In this time zone instead of the machine's. The caller adds the host's arguments.
    pub fn family(&self, host: &Path, folder: &BrowserDirectory, timezone: Option<&str>) -> Command {
        let mut command = if self.is_whole() {
            let mut command = self.bubblewrap(host, folder, timezone);
            command.args([KEEPER, "--confined", "--data-dir", FOLDER, HOST, "--data-dir", FOLDER]);
            command.args(["--extension-dir", EXTENSIONS]);
            command
        } else {
            let mut command = Command::new(keeper_of(host));
            command.env_clear().envs(inherited()).env("LANG", "C.UTF-8");
            let folder = folder.session();
            command.envs(timezone.map(|timezone| ("TZ", timezone)));
            command.arg("--data-dir").arg(&folder).arg(host).arg("--data-dir").arg(&folder);
            let extension = extension_of(host);
            command.arg("--extension-dir").arg(extension.parent().unwrap_or(Path::new(".")));
            command
        };
        command.args(self.pages.then_some("--sandbox"));
        command
    }

    /// To the user that runs the family of this folder.
    pub fn hand_over(&self, path: &Path, folder: &BrowserDirectory) -> io::Result<()> {
        match folder.user() {
            Some(user) if self.is_whole() => give(path, user),
            _ => Ok(()),
        }
    }

    /// Up to the program to run. Without confinement it only sets the environment.
    fn bubblewrap(&self, host: &Path, folder: &BrowserDirectory, timezone: Option<&str>) -> Command {
        let Some(walls) = self.walls else {
            let mut command = Command::new("env");
            command.env_clear().envs(inherited());
            return command;
        };
        let mut command = Command::new("bwrap");
        command.env_clear().envs(inherited());
        command.arg("--clearenv");
        for (name, value) in ENVIRONMENT.into_iter().chain(timezone.map(|timezone| ("TZ", timezone))) {
            command.args(["--setenv", name, value]);
        }
        for folder in EMPTY {
            command.args(["--dir", folder]);
        }
        for place in SHOWN {
            command.args(["--ro-bind-try", place, place]);
        }
        for (shown, voice) in unused_voices().filter(|_| self.voiceless) {
            command.arg("--ro-bind").args([shown, voice]);
        }
        // A process that can open a terminal could inject input into it.
        command.args(["--dev", "/dev", "--dev-bind", "/dev/null", "/dev/tty"]);
        for (place, bytes) in SCRATCH {
            command.args(["--size", bytes, "--perms", "1777", "--tmpfs", place]);
        }
        // Bubblewrap gives only root access to a folder that it creates by itself for a mount.
        command.args(["--dir", EXTENSIONS]);
        let (keeper, extension, session) = (keeper_of(host), extension_of(host), folder.session());
        let shown_extension = format!("{EXTENSIONS}/{EXTENSION}");
        for (how, what, place) in [
            ("--ro-bind", host, HOST),
            ("--ro-bind", keeper.as_path(), KEEPER),
            ("--ro-bind", extension.as_path(), shown_extension.as_str()),
            ("--bind", session.as_path(), FOLDER),
        ] {
            command.arg(how).arg(what).arg(place);
        }
        command.args(["--chdir", FOLDER, "--die-with-parent", "--unshare-net"]);
        let user = folder.user().map(|user| user.to_string());
        let as_user = user.iter().flat_map(|user| ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]);
        let as_user = as_user.chain(["--inh-caps=-all", "--bounding-set=-all", "--"]);
        if walls == SandboxUser::Root {
            command.args(["--dev-bind", "/proc", "/proc", "--remount-ro", "/", "--"]).args(as_user.clone());
            command.args(["bwrap", "--dev-bind", "/", "/", "--die-with-parent", "--proc", "/proc"]);
        } else {
            command.args(["--proc", "/proc", "--remount-ro", "/"]);
        }
        command.args((walls != SandboxUser::RootAlone).then_some("--unshare-user"));
        // The keeper is process 1 of the namespace, so the kernel ends the family with it, independent of bubblewrap.
        command.args(["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1", "--"]);
        if walls == SandboxUser::RootAlone {
            command.args(as_user);
        }
        command
    }
}

fn give(path: &Path, user: u32) -> io::Result<()> {
    lchown(path, Some(user), Some(user))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

fn unused_voices() -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let folders = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].map(PathBuf::from);
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = folders.into_iter().flat_map(move |folder| [folder.join(&triple), folder]);
    folders.filter_map(|folder| {
        // The name is a symbolic link to the versioned file beside it.
        let file = |name| Some(folder.join(fs::canonicalize(folder.join(name)).ok()?.file_name()?));
        Some((file(SHOWN_INSTEAD)?, file(UNUSED_VOICE)?))
    })
}

/// Path of the keeper, which is in the same folder as the host.
fn keeper_of(host: &Path) -> PathBuf {
    host.with_file_name("kitfleet-keeper")
}

/// Beside the host, or where packages install it.
fn extension_of(host: &Path) -> PathBuf {
    let beside = host.with_file_name(EXTENSION);
    if beside.is_file() {
        return beside;
    }
    let installed = host.ancestors().nth(2).map(|root| root.join(INSTALLED_EXTENSIONS).join(EXTENSION));
    installed.filter(|extension| extension.is_file()).unwrap_or(beside)
}

/// Searches `PATH` if the name has no folder.
///
/// # Errors
///
/// The path of a missing program or extension, which a probe could not distinguish from another failure.
pub fn located(host: &Path) -> Result<PathBuf, PathBuf> {
    let host = searched(host);
    let missing = [host.clone(), keeper_of(&host), extension_of(&host)].into_iter().find(|program| !program.is_file());
    missing.map_or(Ok(host), Err)
}

#[allow(clippy::disallowed_methods, reason = "these are handed on as they are: no settings of ours are among them")]
fn inherited() -> impl Iterator<Item = (&'static str, OsString)> {
    INHERITED.into_iter().filter_map(|name| Some((name, env::var_os(name)?)))
}

fn searched(program: &Path) -> PathBuf {
    let path = inherited().into_iter().find_map(|(name, value)| (name == "PATH").then_some(value));
    let is_a_name = program.components().count() == 1;
    let folders = path.iter().filter(|_| is_a_name).flat_map(std::env::split_paths);
    let found = folders.map(|folder| folder.join(program)).find(|path| path.is_file());
    found.or_else(|| program.canonicalize().ok()).unwrap_or_else(|| program.to_owned())
}

async fn probe(spawner: &Spawner, mut command: Command, program: &[&str]) -> Option<String> {
    command.args(program);
    match timeout(PROBED_WITHIN, run(spawner, command)).await {
        Ok(Ok(complaint)) => complaint,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("it does not answer".to_owned()),
    }
}

async fn run(spawner: &Spawner, command: Command) -> io::Result<Option<String>> {
    let mut family = spawner.spawn(command).await?;
    let (_, _, mut stderr) = family.take_pipes()?;
    let mut output = String::new();
    stderr.read_to_string(&mut output).await?;
    let status = family.leader_ended().await;
    family.end().await;
    Ok((!status.success()).then(|| format!("{status}: {}", output.trim())))
}
