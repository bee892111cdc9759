//! How browsers are kept apart from the machine and from each other.
//!
//! A page that gets hold of one of its browser's processes has what that process has. So a whole family, host, network
//! process, web processes and display, lives in bubblewrap, in which it finds its own folder, what programs, libraries,
//! fonts and certificates the machine has, and nothing else: none of the worker's files, other browsers, processes or
//! environment. Its network is a loopback of its own, on which the socket of its guard is the only way out. Inside,
//! WebKit puts its web processes into bubblewrap once more.
//!
//! A worker that runs as root has each family run as a user id of its own (`user_ids.rs`). That takes bubblewrap twice: root shows the
//! family its files, which no other user might see, and then that user makes the rest, as any user does. What root makes of `/proc` has
//! parts covered, and the kernel allows no other `/proc` inside then, which WebKit's own sandbox needs. Where only root may
//! make namespaces, root makes all of it, and the family does without that sandbox.

use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::StartError;
use super::directories::BrowserDirectory;
use super::host::inherited;
use super::processes::Spawner;
use crate::config::Sandbox;

/// Where a confined family has its folder.
const FOLDER: &str = "/session";

/// Where it has its programs.
const HOST: &str = "/kitfleet-host";
const KEEPER: &str = "/kitfleet-keeper";

/// What a family has of the machine, if the machine has it: programs and libraries, fonts, certificates, the time zone.
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

/// Folders that are there, so that everybody may look into them: what lies beside certificates is private. WebKit's sandbox
/// shows those of `/sys` to pages.
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

/// Places for what lasts no longer than the family, in memory, of so many bytes at most.
const SCRATCH: [(&str, &str); 3] = [("/tmp", "67108864"), ("/run", "16777216"), ("/dev/shm", "268435456")];

/// The whole environment of a family, besides what the host says of itself.
const ENVIRONMENT: [(&str, &str); 3] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"), ("HOME", FOLDER), ("LANG", "C.UTF-8")];

/// What WebKit's own sandbox asks of the kernel: namespaces, and file systems mounted in them.
const PAGES: &str =
    "bwrap --die-with-parent --unshare-pid --unshare-uts --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp true";

/// A voice that WebKit is linked with and never speaks with, and the library that is shown in its place, which each process has loaded
/// already: the loader loads no file twice. So it does not look up the voice's 31,000 symbols, which takes a third of all that it does as a
/// process of WebKit starts.
const UNUSED_VOICE: &str = "libflite_cmu_time_awb.so.1";
const SHOWN_INSTEAD: &str = "libflite.so.1";

/// How long a probe may take. It takes milliseconds.
const PROBED_WITHIN: Duration = Duration::from_secs(10);

/// What this machine allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    walls: Option<SandboxUser>,
    /// Whether web processes are sandboxed once more, by WebKit itself.
    pages: bool,
    /// Whether WebKit does without the voice that it does not speak with.
    voiceless: bool,
}

/// Who the family runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SandboxUser {
    /// As whoever runs the worker.
    User,
    /// As the user id of its folder, because the worker is root.
    Root,
    /// Likewise, where only root may make namespaces: WebKit's own sandbox has no place inside then.
    RootAlone,
}

impl Confinement {
    /// Finds out what is possible, and says so loudly. The folder is for trying.
    ///
    /// # Errors
    /// When it is required and not possible.
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
        match probe(spawner, found.bubblewrap(host, folder), &pages).await {
            None => found.pages = true,
            Some(obstacle) => tracing::warn!(obstacle, "web processes run without the sandbox of WebKit"),
        }
        if found.is_whole() {
            // All that the host's libraries need is looked up as it starts, so that a WebKit which does speak with it is told by that.
            let without = Self { voiceless: true, ..found.clone() };
            if probe(spawner, without.bubblewrap(host, folder), &[HOST, "--version"]).await.is_none() {
                found = without;
            }
            tracing::info!(web_processes = found.pages, "each browser is confined to its own folder");
        }
        Ok(found)
    }

    /// Why a family cannot be started so.
    async fn obstacle(&self, spawner: &Spawner, host: &Path, folder: &BrowserDirectory) -> Option<String> {
        if let Err(error) = self.hand_over(&folder.session(), folder) {
            return Some(error.to_string());
        }
        probe(spawner, self.bubblewrap(host, folder), &[KEEPER, "--version"]).await
    }

    /// Whether whole families are confined.
    pub fn is_whole(&self) -> bool {
        self.walls.is_some()
    }

    /// Starts a family. The command lacks what the host is told besides.
    pub fn family(&self, host: &Path, folder: &BrowserDirectory) -> Command {
        let mut command = if self.is_whole() {
            let mut command = self.bubblewrap(host, folder);
            command.args([KEEPER, "--confined", "--data-dir", FOLDER, HOST, "--data-dir", FOLDER]);
            command
        } else {
            let mut command = Command::new(keeper_of(host));
            command.env_clear().envs(inherited()).env("LANG", "C.UTF-8");
            let folder = folder.session();
            command.arg("--data-dir").arg(&folder).arg(host).arg("--data-dir").arg(&folder);
            command
        };
        command.args(self.pages.then_some("--sandbox"));
        command
    }

    /// Gives a path, and all that lies in it, to the user that the family of this folder runs as.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn hand_over(&self, path: &Path, folder: &BrowserDirectory) -> io::Result<()> {
        match folder.user() {
            Some(user) if self.is_whole() => give(path, user),
            _ => Ok(()),
        }
    }

    /// Bubblewrap around a family, up to the program that it is to run; and where there is none, the mere environment.
    fn bubblewrap(&self, host: &Path, folder: &BrowserDirectory) -> Command {
        let Some(walls) = self.walls else {
            let mut command = Command::new("env");
            command.env_clear().envs(inherited());
            return command;
        };
        let mut command = Command::new("bwrap");
        command.env_clear().envs(inherited());
        command.arg("--clearenv");
        for (name, value) in ENVIRONMENT {
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
        // A terminal takes orders from whoever may open it.
        command.args(["--dev", "/dev", "--dev-bind", "/dev/null", "/dev/tty"]);
        for (place, bytes) in SCRATCH {
            command.args(["--size", bytes, "--perms", "1777", "--tmpfs", place]);
        }
        let (keeper, session) = (keeper_of(host), folder.session());
        for (how, what, place) in
            [("--ro-bind", host, HOST), ("--ro-bind", keeper.as_path(), KEEPER), ("--bind", session.as_path(), FOLDER)]
        {
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
        // The keeper is the first process: with it goes the family, whatever bubblewrap does.
        command.args(["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1", "--"]);
        if walls == SandboxUser::RootAlone {
            command.args(as_user);
        }
        command
    }
}

/// Gives a path, and all that lies in it, to a user and the group of the same number.
fn give(path: &Path, user: u32) -> io::Result<()> {
    lchown(path, Some(user), Some(user))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

/// Where the voice lies that nobody needs, each with what is shown there instead.
fn unused_voices() -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let folders = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].map(PathBuf::from);
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = folders.into_iter().flat_map(move |folder| [folder.join(&triple), folder]);
    folders.filter_map(|folder| {
        // A link leads to the file beside it that has its version in its name.
        let file = |name| Some(folder.join(fs::canonicalize(folder.join(name)).ok()?.file_name()?));
        Some((file(SHOWN_INSTEAD)?, file(UNUSED_VOICE)?))
    })
}

/// A family's first program lies beside its host.
fn keeper_of(host: &Path) -> PathBuf {
    host.with_file_name("kitfleet-keeper")
}

/// Where a family's programs are, of which the host may be named without its folder.
///
/// # Errors
/// With the one that is not there, which nothing that confines it could tell from an obstacle of its own.
pub fn located(host: &Path) -> Result<PathBuf, PathBuf> {
    let host = searched(host);
    let missing = [host.clone(), keeper_of(&host)].into_iter().find(|program| !program.is_file());
    missing.map_or(Ok(host), Err)
}

fn searched(program: &Path) -> PathBuf {
    let path = inherited().into_iter().find_map(|(name, value)| (name == "PATH").then_some(value));
    let is_a_name = program.components().count() == 1;
    let folders = path.iter().filter(|_| is_a_name).flat_map(std::env::split_paths);
    let found = folders.map(|folder| folder.join(program)).find(|path| path.is_file());
    found.or_else(|| program.canonicalize().ok()).unwrap_or_else(|| program.to_owned())
}

/// Why a program cannot be run so; `None` when it can, and ends well.
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
    let mut words = String::new();
    stderr.read_to_string(&mut words).await?;
    let status = family.leader_ended().await;
    family.end().await;
    Ok((!status.success()).then(|| format!("{status}: {}", words.trim())))
}
