use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kitfleet_domain::accounts::NewAccount;
use kitfleet_domain::api_keys::{self, NewKey, Scopes};
use kitfleet_domain::audit::Actor;
use kitfleet_domain::sign_ups;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use kitfleet_worker::config::Clock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use tempfile::TempDir;
use uuid::Uuid;

use super::client::Client;
use super::database::Database;
use super::eventually;
use super::here::Service;
use super::pooler::Pooler;
use super::postgres::Postgres;

/// Inherited by the processes of a test's service, so that leftovers can be found. Processes that start browsers receive a
/// smaller environment, but `TMPDIR` marks them as well. An embedded database is found by its working folder.
const MARK: &str = "KITFLEET_TEST_MARK";

const PROGRAM: &str = env!("CARGO_BIN_EXE_kitfleet");

const NO_PROCESS: &str = "the service is no process of its own: start it `in_processes`";

/// Exceeds the service's own timeouts.
pub const STOPS_WITHIN: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Up,
    Api,
    Worker,
}

/// [`App::stop`] ends it and checks for leftovers; a test that does not call it fails.
pub struct App {
    pub database: Database,
    pub base_url: String,
    pub data_dir: TempDir,
    pub clock: Clock,
    settings: BTreeMap<String, String>,
    parts: Vec<(Role, Part)>,
    /// Folders in [`App::data_dir`], one for each part.
    data_dirs: Vec<String>,
    mark: String,
    embedded: bool,
    files: Option<(u32, u32)>,
    program: PathBuf,
    stopped: bool,
    /// Dropped after the service that uses it.
    _pooler: Option<Pooler>,
    postgres: Option<Postgres>,
}

enum Part {
    Here(Service),
    Process(Child),
}

struct Process {
    name: String,
    parent: i32,
    is_zombie: bool,
}

fn every_process() -> BTreeMap<i32, Process> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // A name can contain any character, including parentheses.
        let (name, rest) = (stat.split_once('(')?.1.rsplit_once(") ")?.0, stat.rsplit_once(") ")?.1);
        let mut fields = rest.split(' ');
        let is_zombie = fields.next()? == "Z";
        Some((pid, Process { name: name.to_owned(), parent: fields.next()?.parse().ok()?, is_zombie }))
    })
    .collect()
}

pub struct Builder {
    settings: BTreeMap<String, String>,
    roles: Vec<Role>,
    in_processes: bool,
    test_database: TestDatabase,
    files: Option<(u32, u32)>,
    begins_with: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestDatabase {
    Shared,
    /// Like `Shared`, through a pooler, except for connections that listen.
    Pooled,
    /// A server for this test, which counts statements.
    Counting,
    Embedded,
}

impl App {
    /// Runs in the process of the test unless the builder says otherwise.
    pub fn simulated() -> Builder {
        Builder::new().set("worker.driver", "simulated")
    }

    /// Browsers can reach the test's own site. There are no warm browsers: most tests open one session, and an unused browser
    /// would slow the tests beside it.
    pub fn webkit() -> Builder {
        let builder = Builder::new().in_processes().set("worker.driver", "webkit").set("worker.warm_pool", "0");
        builder.set("sessions.allow_private_targets", "true")
    }

    pub async fn client_with(&self, tier: Tier, scopes: &[&str]) -> Client {
        let account = self.account(tier).await;
        self.client_of(account, scopes).await
    }

    pub async fn customer(&self, tier: Tier) -> (AccountId, Client) {
        let account = self.account(tier).await;
        (account, self.client_of(account, &["account_owner"]).await)
    }

    /// A new account with full access and 32 slots.
    pub async fn client(&self) -> Client {
        self.customer(Tier::Enterprise).await.1
    }

    pub async fn account(&self, tier: Tier) -> AccountId {
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        let email = format!("{}@example.com", Uuid::now_v7().simple());
        let new = NewAccount {
            email,
            name: "Ada".to_owned(),
            password_hash: None,
            tier,
            verified: true,
            signup_network: None,
        };
        sign_ups::create(&mut conn, new).await.expect("a new account")
    }

    pub async fn client_of(&self, account: AccountId, scopes: &[&str]) -> Client {
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        let scopes = Scopes::parse(scopes).expect("known scopes");
        let new = NewKey::customer("test", &scopes);
        let (_, key) = api_keys::mint(&mut conn, account, &Actor::System, new).await.expect("a key");
        Client::new(&self.base_url, Some(key.reveal()))
    }

    /// The account that the first start of `kitfleet up` creates.
    pub fn owner(&self) -> Client {
        let key = fs::read_to_string(self.data_dir.path().join("data/owner-key")).expect("the key is kept");
        Client::new(&self.base_url, Some(key.trim()))
    }

    pub async fn staff(&self) -> Client {
        let minted = self.run(&["key", "mint", "--staff", "--name", "Grace", "--json"]).await.code(0).json();
        Client::new(&self.base_url, Some(minted["key"].as_str().expect("a key")))
    }

    pub fn stranger(&self) -> Client {
        Client::new(&self.base_url, None)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = match self.files {
            None => Command::new(&self.program),
            Some((soft, hard)) => {
                let mut shell = Command::new("sh");
                let limited = format!("ulimit -S -n {soft} && ulimit -H -n {hard} && exec \"$0\" \"$@\"");
                shell.args(["-c", &limited]).arg(&self.program);
                shell
            }
        };
        command.args(args).env_clear().current_dir(self.data_dir.path()).env(MARK, &self.mark);
        command.env("TMPDIR", self.data_dir.path());
        for name in ["PATH", "HOME", "LANG"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(self.variables());
        command
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        let named = |(key, value): (&String, &String)| {
            (format!("KITFLEET_{}", key.to_uppercase().replace('.', "__")).into(), value.into())
        };
        let database = (!self.embedded).then(|| ("DATABASE_URL".into(), self.database.url().into()));
        self.settings.iter().map(named).chain(database).collect()
    }

    /// The test's own database server.
    pub fn postgres(&mut self) -> &mut Postgres {
        self.postgres.as_mut().expect("a server of the test's own")
    }

    /// Switches to the version under test: migrates the schema and uses its program for further processes.
    pub async fn upgrade(&mut self) {
        self.program = PROGRAM.into();
        self.settings.insert("worker.drain_timeout".to_owned(), "10s".to_owned());
        self.run(&["migrate"]).await.code(0);
    }

    pub fn start(&mut self, role: Role) -> usize {
        self.start_with(role, &[])
    }

    pub async fn start_another_api(&mut self) -> (usize, String) {
        let address = format!("127.0.0.1:{}", free_port());
        let process = self.start_with(Role::Api, &[("KITFLEET_SERVER__LISTEN", &address)]);
        let base_url = format!("http://{address}");
        let client = Client::new(&base_url, None);
        eventually(Duration::from_secs(30), "the other API is there", async || {
            client.request(Method::GET, "/healthz").send().await.ok()
        })
        .await;
        (process, base_url)
    }

    pub fn start_with(&mut self, role: Role, variables: &[(&str, &str)]) -> usize {
        let log = fs::File::create(self.log_file(self.parts.len())).expect("a log file");
        let name = match role {
            Role::Up => "up",
            Role::Api => "api",
            Role::Worker => "worker",
        };
        let stderr = log.try_clone().expect("a log file");
        let mut command = self.command(&[name]);
        let folder = self.free_data_dir(role);
        command.env("KITFLEET_DATA_DIR", self.data_dir.path().join(&folder));
        self.data_dirs.push(folder);
        command.envs(variables.iter().copied());
        let child = command.stdin(Stdio::null()).stdout(log).stderr(stderr).spawn().expect("the binary starts");
        self.parts.push((role, Part::Process(child)));
        self.parts.len() - 1
    }

    /// The first folder without a running worker, if the process runs a worker.
    fn free_data_dir(&mut self, role: Role) -> String {
        const FIRST: &str = "data";
        if role == Role::Api {
            return FIRST.to_owned();
        }
        let taken: HashSet<_> = self
            .parts
            .iter_mut()
            .zip(&self.data_dirs)
            .filter_map(|((role, part), folder)| {
                let has_ended = match part {
                    Part::Here(service) => service.has_ended(),
                    Part::Process(child) => child.try_wait().expect("a child").is_some(),
                };
                (*role != Role::Api && !has_ended).then_some(folder.as_str())
            })
            .collect();
        let others = (1..).map(|number| format!("{FIRST}-{number}"));
        let free = std::iter::once(FIRST.to_owned()).chain(others).find(|folder| !taken.contains(folder.as_str()));
        free.expect("an unused number")
    }

    pub fn started(&self) -> usize {
        self.parts.len()
    }

    pub fn log(&self, process: usize) -> String {
        match self.parts[process].1 {
            Part::Here(_) => Service::log(),
            Part::Process(_) => fs::read_to_string(self.log_file(process)).unwrap_or_default(),
        }
    }

    fn log_file(&self, process: usize) -> PathBuf {
        self.data_dir.path().join(format!("process-{process}.log"))
    }

    pub fn pid(&self, process: usize) -> Pid {
        match &self.parts[process].1 {
            Part::Process(child) => pid_of(child),
            Part::Here(_) => panic!("{NO_PROCESS}"),
        }
    }

    fn child(&mut self, process: usize) -> &mut Child {
        match &mut self.parts[process].1 {
            Part::Process(child) => child,
            Part::Here(_) => panic!("{NO_PROCESS}"),
        }
    }

    /// After SIGKILL or SIGTERM, waits for the end.
    pub async fn signal(&mut self, process: usize, signal: Signal) {
        kill(self.pid(process), signal).expect("the process runs");
        if matches!(signal, Signal::SIGKILL | Signal::SIGTERM) {
            let child = self.child(process);
            eventually(STOPS_WITHIN, "the process ends", async || child.try_wait().expect("a child")).await;
        }
    }

    pub fn has_ended(&mut self, process: usize) -> bool {
        self.child(process).try_wait().expect("a child").is_some()
    }

    pub fn peak_memory_kib(&self, process: usize) -> i64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid(process))).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Named such as `kitfleet-host` or `WebKitWebProcess`.
    pub fn processes(&self, name: &str) -> Vec<Pid> {
        // The kernel stores 15 characters of a name.
        let short: String = name.chars().take(15).collect();
        self.marked().into_iter().filter(|(_, comm)| *comm == short).map(|(pid, _)| pid).collect()
    }

    /// The marked processes and their descendants: confined ones have an environment without the mark.
    pub fn marked(&self) -> Vec<(Pid, String)> {
        let marks = [format!("{MARK}={}", self.mark), format!("TMPDIR={}", self.data_dir.path().display())];
        let database = self.data_dir.path().join("data/postgres");
        let is_marked = |pid: i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| marks.iter().any(|mark| variable == mark.as_bytes()))
                || fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder == database)
        };
        let processes = every_process();
        let mut ours: HashSet<i32> = processes.keys().copied().filter(|pid| is_marked(*pid)).collect();
        loop {
            let children = processes.iter().filter(|(_, process)| ours.contains(&process.parent));
            let found: Vec<_> = children.map(|(pid, _)| *pid).filter(|pid| !ours.contains(pid)).collect();
            if found.is_empty() {
                break;
            }
            ours.extend(found);
        }
        let living = processes.into_iter().filter(|(pid, process)| ours.contains(pid) && !process.is_zombie);
        living.map(|(pid, process)| (Pid::from_raw(pid), process.name)).collect()
    }

    /// Also for sessions, if the service has a worker.
    pub async fn ready(&self) {
        let path = if self.parts.iter().any(|(role, _)| *role != Role::Api) { "/readyz" } else { "/healthz" };
        let stranger = self.stranger();
        eventually(Duration::from_secs(30), "the service is ready", async || {
            for (_, part) in &self.parts {
                assert!(!matches!(part, Part::Here(service) if service.has_ended()), "the service does not start");
            }
            let answer = stranger.request(Method::GET, path).send().await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
    }

    /// Asserts that no process, task, busy slot or running job is left.
    pub async fn stop(mut self) {
        for (_, part) in &mut self.parts {
            match part {
                Part::Here(service) => service.request_stop(),
                Part::Process(child) => {
                    if child.try_wait().expect("a child").is_none() {
                        kill(pid_of(child), Signal::SIGTERM).expect("the process runs");
                    }
                }
            }
        }
        for (index, (_, part)) in self.parts.iter_mut().enumerate() {
            match part {
                Part::Here(service) => service.stopped().await,
                Part::Process(child) => {
                    let status =
                        eventually(STOPS_WITHIN, "the service stops", async || child.try_wait().expect("a child"))
                            .await;
                    let killed_by_the_test = status.code().is_none();
                    assert!(status.success() || killed_by_the_test, "process {index} ended with {status}");
                }
            }
        }
        eventually(Duration::from_secs(5), "no process is left", async || self.marked().is_empty().then_some(())).await;
        self.stopped = true;
        self.assert_orderly().await;
        self.database.drop().await;
    }

    async fn assert_orderly(&self) {
        for process in 0..self.parts.len() {
            let log = self.log(process);
            assert!(!log.contains("panicked at"), "process {process} panicked:\n{log}");
        }
        let live = "select count(*) from sessions s join workers w on w.id = s.worker_id
                    where w.status = 'stopped' and s.status in ('creating', 'ready', 'busy')";
        assert_eq!(self.count(live).await, 0, "a stopped worker holds slots");
        let leaked = "select count(*) from worker_slots l join sessions s on s.id = l.session_id
                      where s.status not in ('creating', 'ready', 'busy')";
        assert_eq!(self.count(leaked).await, 0, "slots are taken by sessions that have ended");
        let operations = "select count(*) from intents i join workers w on w.id = i.worker_id
                          where w.status = 'stopped' and i.status <> 'done'";
        assert_eq!(self.count(operations).await, 0, "a stopped worker has operations");
        self.assert_events_are_promised().await;
    }
}

impl Drop for App {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        for (pid, _) in self.marked() {
            // Kills the processes of a failed test, so that they do not slow the next one.
            let _ = kill(pid, Signal::SIGKILL);
        }
        for (_, part) in &mut self.parts {
            if let Part::Process(child) = part {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if std::thread::panicking() {
            for process in 0..self.parts.len() {
                let log = self.log(process);
                let tail: Vec<_> = log.lines().rev().take(40).collect();
                eprintln!("--- log of process {process}, last lines ---");
                tail.into_iter().rev().for_each(|line| eprintln!("{line}"));
            }
        } else {
            panic!("a test has to stop its service");
        }
    }
}

impl Builder {
    fn new() -> Self {
        // Most tests have live sessions at their end, and a drain would wait for them.
        let settings = BTreeMap::from([("worker.drain_timeout".to_owned(), "100ms".to_owned())]);
        Self {
            settings,
            roles: vec![Role::Up],
            in_processes: false,
            test_database: TestDatabase::Shared,
            files: None,
            begins_with: None,
        }
    }

    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Runs the service in separate processes, which a test can inspect or end.
    pub fn in_processes(mut self) -> Self {
        self.in_processes = true;
        self
    }

    /// In the process of the test, which can advance the clock; with or without browsers.
    pub fn here(mut self) -> Self {
        self.in_processes = false;
        // The host program is not beside the test program.
        let host = Path::new(PROGRAM).with_file_name("kitfleet-host");
        self.settings.entry("worker.host_program".to_owned()).or_insert_with(|| host.display().to_string());
        self
    }

    pub fn roles(mut self, roles: &[Role]) -> Self {
        self.roles = roles.to_vec();
        self.in_processes()
    }

    pub fn embedded(mut self) -> Self {
        self.test_database = TestDatabase::Embedded;
        self.in_processes()
    }

    pub fn counting_statements(mut self) -> Self {
        self.test_database = TestDatabase::Counting;
        self
    }

    /// A server that the test can stop.
    pub fn on_a_server_of_its_own(self) -> Self {
        self.counting_statements()
    }

    /// The earlier version migrates an empty database itself; the settings are known to both versions. [`App::upgrade`]
    /// switches to the version under test.
    pub fn begun_by(mut self, program: PathBuf) -> Self {
        self.settings.remove("worker.drain_timeout");
        self.begins_with = Some(program);
        self.in_processes()
    }

    /// Connects the service to its database through a pooler, except for connections that listen.
    pub fn pooled(mut self) -> Self {
        self.test_database = TestDatabase::Pooled;
        self
    }

    /// Soft and hard limit of each process.
    pub fn files(mut self, soft: u32, hard: u32) -> Self {
        self.files = Some((soft, hard));
        self.in_processes()
    }

    pub async fn start(self) -> App {
        let (postgres, database) = if self.test_database == TestDatabase::Counting {
            // Durability is not needed.
            let postgres = Postgres::start(&["fsync=off", "full_page_writes=off"]).await.expect("a PostgreSQL");
            let database = Database::create_on(postgres.options()).await;
            (Some(postgres), database)
        } else if self.begins_with.is_some() {
            (None, Database::create_empty().await)
        } else {
            (None, Database::create().await)
        };
        let data_dir = TempDir::new().expect("a folder");
        let port = free_port();
        let mut settings = self.settings;
        settings.insert("server.listen".to_owned(), format!("127.0.0.1:{port}"));
        settings.insert("data_dir".to_owned(), data_dir.path().join("data").display().to_string());
        settings.entry("log.filter".to_owned()).or_insert_with(|| "info".to_owned());
        let pooler = if self.test_database == TestDatabase::Pooled {
            Some(Pooler::start(database.server()).await)
        } else {
            None
        };
        if let Some(pooler) = &pooler {
            settings.insert("database.url".to_owned(), pooler.url(&database.name));
            settings.insert("database.listen_url".to_owned(), database.url());
        }
        let mut app = App {
            database,
            base_url: format!("http://127.0.0.1:{port}"),
            data_dir,
            clock: Clock::default(),
            settings,
            parts: Vec::new(),
            data_dirs: Vec::new(),
            mark: Uuid::now_v7().to_string(),
            embedded: self.test_database == TestDatabase::Embedded,
            files: self.files,
            program: PROGRAM.into(),
            stopped: false,
            _pooler: pooler,
            postgres,
        };
        if let Some(program) = self.begins_with {
            app.program = program;
            app.run(&["migrate"]).await.code(0);
        }
        if self.in_processes {
            for role in self.roles {
                app.start(role);
            }
        } else {
            app.parts.push((Role::Up, Part::Here(Service::start(app.variables(), app.clock.clone()))));
            app.data_dirs.push("data".to_owned());
        }
        app.ready().await;
        app
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id"))
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
