use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use nix::unistd::Pid;

use crate::support::App;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub program: String,
    pub address: SocketAddr,
}

pub fn below(root: Pid, name: &str) -> Vec<Pid> {
    // The kernel stores 15 characters of a name.
    let short: String = name.chars().take(15).collect();
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            open.extend(children.split_whitespace().filter_map(|child| Some(Pid::from_raw(child.parse().ok()?))));
        }
        if pid != root && comm(pid) == short {
            found.push(pid);
        }
    }
    found
}

pub fn parent_of(pid: Pid) -> Pid {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent");
    Pid::from_raw(parent.trim().parse().expect("a process id"))
}

/// `None` when the process has ended.
pub fn namespace(pid: Pid, kind: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()
}

fn comm(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// The process has not waited for these ended children.
pub fn zombies_of(parent: Pid) -> usize {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let is_zombie = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        Some(fields.next()? == "Z" && fields.next()? == parent.to_string())
    };
    entries.filter_map(|entry| is_zombie(entry.file_name().to_str()?.parse().ok()?)).filter(|zombie| *zombie).count()
}

pub fn open_files(pid: Pid) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process runs").count()
}

/// Ports of the service's processes in the network namespace of the process `of`.
pub fn listeners(app: &App, of: Pid) -> Vec<Listener> {
    app.marked()
        .into_iter()
        .filter(|(pid, _)| namespace(*pid, "net") == namespace(of, "net"))
        .flat_map(|(pid, program)| {
            // A process that ends meanwhile has no sockets.
            let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let sockets: Vec<_> = fds.filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
            let listening = listening_inodes(pid);
            sockets.into_iter().filter_map(move |socket| {
                let inode = socket.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
                Some(Listener { program: program.clone(), address: *listening.get(inode)? })
            })
        })
        .collect()
}

/// In the network namespace of a process, by inode.
fn listening_inodes(pid: Pid) -> HashMap<String, SocketAddr> {
    const LISTEN: &str = "0A";
    ["tcp", "tcp6"]
        .iter()
        .flat_map(|table| {
            let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
            let rows: Vec<_> = table.lines().skip(1).map(ToOwned::to_owned).collect();
            rows.into_iter().filter_map(|row| {
                let fields: Vec<_> = row.split_whitespace().collect();
                (*fields.get(3)? == LISTEN).then_some(())?;
                Some(((*fields.get(9)?).to_owned(), socket_address(fields[1])?))
            })
        })
        .collect()
}

/// Hexadecimal 32-bit words in the byte order of the machine.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let words = (0..ip.len()).step_by(8).map(|at| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok());
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}
