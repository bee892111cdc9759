//! Child processes that cannot outlive their owner.
//!
//! Four things see to that. Every child leads a process group of its own, which is killed as a whole. The kernel kills
//! the child when the *thread* that started it ends, so all are started by one thread that lives as long as its
//! [`Spawner`]. This process adopts the orphans of its children, so that it can wait for them too. And a host ends by
//! itself at the end of its input.

use std::collections::HashMap;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use procfs::process::Stat;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

/// How long the kernel may take to bury a killed process. It takes milliseconds, unless a disk hangs.
const BURIED_WITHIN: Duration = Duration::from_secs(5);

/// The thread that starts every child. When the last clone is dropped it ends, and its children with it.
#[derive(Clone)]
pub struct Spawner {
    orders: mpsc::Sender<Order>,
}

struct Order {
    command: Command,
    reply: oneshot::Sender<io::Result<Family>>,
}

impl Spawner {
    /// Starts the thread, which uses the calling runtime to wait for the children.
    ///
    /// # Errors
    /// When there can be no further thread.
    pub fn start() -> io::Result<Self> {
        if let Err(error) = prctl::set_child_subreaper(true) {
            tracing::debug!(%error, "cannot become the subreaper: init reaps orphaned browser processes");
        }
        let (orders, queue) = mpsc::channel::<Order>();
        let runtime = Handle::current();
        thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            let _inside = runtime.enter();
            for order in queue {
                // Whoever no longer waits drops the family, which kills it.
                let _ = order.reply.send(Family::spawn(order.command));
            }
        })?;
        Ok(Self { orders })
    }

    /// Starts `command` as the leader of a family. Its input and outputs are pipes.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub async fn spawn(&self, command: Command) -> io::Result<Family> {
        let (reply, family) = oneshot::channel();
        self.orders.send(Order { command, reply }).map_err(io::Error::other)?;
        family.await.map_err(io::Error::other)?
    }
}

/// A child and all that it started, killed when dropped.
pub struct Family {
    leader: Child,
    group: Pid,
}

impl Family {
    fn spawn(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let leader = command.spawn()?;
        let group = leader.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { leader, group: Pid::from_raw(group) })
    }

    /// The leader's process id, which is the group's too.
    pub fn id(&self) -> Pid {
        self.group
    }

    /// The leader's pipes, once.
    ///
    /// # Errors
    /// The second time.
    pub fn take_pipes(&mut self) -> io::Result<(ChildStdin, ChildStdout, ChildStderr)> {
        let pipes = (self.leader.stdin.take(), self.leader.stdout.take(), self.leader.stderr.take());
        match pipes {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((stdin, stdout, stderr)),
            _ => Err(io::Error::other("the pipes are taken")),
        }
    }

    /// Waits until the leader ends by itself.
    pub async fn leader_ended(&mut self) -> ExitStatus {
        // The only error is that somebody else waited for it, and then it has ended too.
        self.leader.wait().await.unwrap_or_default()
    }

    /// Sends a signal to every member. The group's id is the family's own for as long as the leader was not waited for.
    pub fn signal(&self, signal: Signal) {
        if self.leader.id().is_some() {
            // The only error is that the last member has just ended.
            let _ = killpg(self.group, signal);
        }
    }

    /// Kills every member and waits until none is left. WebKit's processes stay in the group of their leader, those in
    /// bubblewrap too. When it dies they become children of this process, or are ended with the first process of their
    /// own namespace, whose end the kernel holds back until the last of them is gone.
    pub async fn end(mut self) {
        self.signal(Signal::SIGKILL);
        self.leader_ended().await;
        if !self.is_gone_by(Instant::now() + BURIED_WITHIN).await {
            tracing::error!(group = self.group.as_raw(), "processes do not end after SIGKILL");
        }
    }

    /// Waits until the leader, which was told to, has ended, and then the others, each when it has done what it still
    /// had to do. Those that are left after `limit` are killed.
    pub async fn end_in_order(mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        if timeout_at(deadline, self.leader_ended()).await.is_ok() {
            if self.is_gone_by(deadline).await {
                return;
            }
            // The group's id is still the family's own: a member is there that nobody has waited for.
            let _ = killpg(self.group, Signal::SIGKILL);
        }
        tracing::warn!(group = self.group.as_raw(), "browser did not exit cleanly");
        self.end().await;
    }

    /// Waits until no member is left. The leader has ended.
    async fn is_gone_by(&self, deadline: Instant) -> bool {
        let members = Pid::from_raw(-self.group.as_raw());
        loop {
            match waitpid(members, Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::ECHILD) => return true,
                Ok(WaitStatus::StillAlive) if Instant::now() > deadline => return false,
                Ok(WaitStatus::StillAlive) => sleep(Duration::from_millis(1)).await,
                _ => {}
            }
        }
    }
}

/// The processes of this machine at one moment, all read at once: to ask the kernel for each family's members costs as much
/// again for each of their threads.
pub struct Processes {
    by_parent: HashMap<i32, Vec<Stat>>,
}

impl Processes {
    /// Reads them. One that ends meanwhile may be missing, and its children then are nobody's.
    ///
    /// # Errors
    /// When the machine has no `/proc`.
    pub fn now() -> io::Result<Self> {
        let mut by_parent = HashMap::<_, Vec<_>>::new();
        let all = procfs::process::all_processes().map_err(io::Error::other)?;
        for process in all.filter_map(|process| process.ok()?.stat().ok()) {
            by_parent.entry(process.ppid).or_default().push(process);
        }
        Ok(Self { by_parent })
    }

    /// What a process and its children have started and still runs.
    pub fn below(&self, leader: Pid) -> Vec<&Stat> {
        let of = |parent: i32| self.by_parent.get(&parent).into_iter().flatten();
        let mut found: Vec<&Stat> = of(leader.as_raw()).collect();
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            found.extend(of(parent.pid));
            next += 1;
        }
        found
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}
