//! Child processes that cannot outlive their owner.
//!
//! - Every child leads a process group, which is killed as a whole.
//! - The kernel kills the child when the *thread* that started it ends. One thread, which lives as long as its
//!   [`Spawner`],   therefore starts all children.
//! - This process adopts the orphans of its children, so that it can also wait for them.
//! - A host exits by itself at the end of its input.

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

/// It takes milliseconds, unless a disk hangs.
const REAPED_WITHIN: Duration = Duration::from_secs(5);

/// Ends when the last clone is dropped, and its children end with it.
#[derive(Clone)]
pub struct Spawner {
    orders: mpsc::Sender<Order>,
}

struct Order {
    command: Command,
    reply: oneshot::Sender<io::Result<Family>>,
}

impl Spawner {
    /// The thread waits for the children on the calling runtime.
    pub fn start() -> io::Result<Self> {
        if let Err(error) = prctl::set_child_subreaper(true) {
            tracing::debug!(%error, "cannot become the subreaper: init reaps orphaned browser processes");
        }
        let (orders, queue) = mpsc::channel::<Order>();
        let runtime = Handle::current();
        thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            let _inside = runtime.enter();
            for order in queue {
                // If the receiver is gone, the family is dropped, which kills it.
                let _ = order.reply.send(Family::spawn(order.command));
            }
        })?;
        Ok(Self { orders })
    }

    /// The leader's input and outputs are pipes.
    pub async fn spawn(&self, command: Command) -> io::Result<Family> {
        let (reply, family) = oneshot::channel();
        self.orders.send(Order { command, reply }).map_err(io::Error::other)?;
        family.await.map_err(io::Error::other)?
    }
}

/// Dropping it kills the child and its descendants.
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

    pub fn id(&self) -> Pid {
        self.group
    }

    /// Fails when they have already been taken.
    pub fn take_pipes(&mut self) -> io::Result<(ChildStdin, ChildStdout, ChildStderr)> {
        let pipes = (self.leader.stdin.take(), self.leader.stdout.take(), self.leader.stderr.take());
        match pipes {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((stdin, stdout, stderr)),
            _ => Err(io::Error::other("the pipes have already been taken")),
        }
    }

    pub async fn leader_ended(&mut self) -> ExitStatus {
        // The only error is that the process has already been reaped, so it has ended.
        self.leader.wait().await.unwrap_or_default()
    }

    /// The group ID cannot be reused until the leader is reaped.
    pub fn signal(&self, signal: Signal) {
        if self.leader.id().is_some() {
            // The only error is that the last member has just ended.
            let _ = killpg(self.group, signal);
        }
    }

    /// WebKit's processes stay in the group of their leader, also inside bubblewrap. When the leader ends, they either become
    /// children of this process or end with process 1 of their namespace, whose exit the kernel delays until they are gone.
    pub async fn end(mut self) {
        self.signal(Signal::SIGKILL);
        self.leader_ended().await;
        if !self.wait_until_gone(Instant::now() + REAPED_WITHIN).await {
            tracing::error!(group = self.group.as_raw(), "browser processes do not end after SIGKILL");
        }
    }

    /// The other members have finished their work by then. Members that remain after `limit` are killed.
    pub async fn end_in_order(mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        if timeout_at(deadline, self.leader_ended()).await.is_ok() {
            if self.wait_until_gone(deadline).await {
                return;
            }
            // The group ID cannot have been reused, because a member has not been reaped yet.
            let _ = killpg(self.group, Signal::SIGKILL);
        }
        tracing::warn!(group = self.group.as_raw(), "browser did not exit cleanly");
        self.end().await;
    }

    /// Waits until no member is left. The leader must have ended.
    async fn wait_until_gone(&self, deadline: Instant) -> bool {
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

/// One read of all processes is cheaper than queries for each family, which the kernel answers separately for each thread.
pub struct Processes {
    by_parent: HashMap<i32, Vec<Stat>>,
}

impl Processes {
    /// A process that ends meanwhile may be missing, and its children then have no parent.
    pub fn now() -> io::Result<Self> {
        let mut by_parent = HashMap::<_, Vec<_>>::new();
        let all = procfs::process::all_processes().map_err(io::Error::other)?;
        for process in all.filter_map(|process| process.ok()?.stat().ok()) {
            by_parent.entry(process.ppid).or_default().push(process);
        }
        Ok(Self { by_parent })
    }

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
