//! One browser: WebKit in a window of a device's size, driven by lines on standard input.
//!
//! The host drives WebKit itself, without WebDriver: there is no automation session that a page could notice, and no
//! port that a page could reach. Everything happens on GTK's main loop, where each command is a future of its own; a
//! thread reads the commands, and threads of a pool compress pictures.

mod acknowledgement;
mod browser;
mod capture;
mod channel;
mod cookies;
mod failure;
mod history;
mod keys;
mod live;
mod navigation;
mod screen;
mod script;
mod submissions;
mod touch;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{FromRawFd, RawFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use clap::Parser;
use kitfleet_host_protocol::{HostCommand, HostError, Message, Outcome, Request};
use serde_json::value::RawValue;
use webkit2gtk::WebViewExt;

use crate::browser::Browser;
use crate::channel::{Output, json};

/// What is fixed for the life of a host.
#[derive(Debug, Parser)]
#[command(version, about = "One WebKit browser, driven by lines on standard input")]
struct Arguments {
    /// The device pixel ratio.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4))]
    scale: u32,
    /// The viewport, in CSS pixels.
    #[arg(long, value_parser = size)]
    viewport: Size,
    /// The screen, in CSS pixels.
    #[arg(long, value_parser = size)]
    screen: Size,
    /// The open file from which the number of the display can be read.
    #[arg(long)]
    display_from: RawFd,
    /// Where the storage of web sites lives. Cookies are in memory only.
    #[arg(long)]
    data_dir: PathBuf,
    /// Run web processes in bubblewrap.
    #[arg(long)]
    sandbox: bool,
}

/// Width and height.
type Size = (i32, i32);

/// As in `393x852`.
fn size(text: &str) -> Result<Size, String> {
    let sides = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    sides.ok_or_else(|| format!("{text:?} is no size such as 393x852"))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The worker keeps a host's standard error for its log.
            let _ = io::Write::write_all(&mut io::stderr(), format!("kitfleet-host: {message}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let output = Output::claim().map_err(|error| format!("standard output: {error}"))?;
    screen::set(arguments.screen);
    prepare_environment(arguments.scale)?;
    set("DISPLAY", &display(arguments.display_from)?)?;
    gtk::init().map_err(|error| error.to_string())?;

    let browser = Browser::start(arguments, output.clone())?;
    channel::read_requests({
        let browser = browser.clone();
        move |request| obey_apart(&browser, &output, request)
    });
    gtk::main();
    // A page that never yields would keep its process for another ten seconds.
    browser.view.terminate_web_process();
    Ok(())
}

/// The display's name, as soon as its server listens, which has started beside this process.
fn display(number: RawFd) -> Result<String, String> {
    // SAFETY: whoever started this process has opened the file for it, and nothing else here knows of it.
    let number = unsafe { File::from_raw_fd(number) };
    let mut line = String::new();
    // One that does not start ends, and says nothing.
    BufReader::new(number).read_line(&mut line).map_err(|error| format!("the display's number: {error}"))?;
    match line.trim().parse::<u32>() {
        Ok(number) => Ok(format!(":{number}")),
        Err(_) => Err("there is no display".to_owned()),
    }
}

fn set(name: &str, value: &str) -> Result<(), String> {
    glib::setenv(name, value, true).map_err(|error| format!("{name}: {error}"))
}

/// Runs a command beside those that are under way.
fn obey_apart(browser: &Rc<Browser>, output: &Output, request: Request) {
    let (browser, output) = (browser.clone(), output.clone());
    glib::MainContext::default().spawn_local(async move {
        let id = request.id;
        let outcome = match obey(&browser, request).await {
            Ok(value) => Outcome::Ok(value),
            Err(error) => Outcome::Error(error),
        };
        output.send(&Message::Reply { id, outcome });
    });
}

async fn obey(browser: &Rc<Browser>, request: Request) -> Result<Box<RawValue>, HostError> {
    Ok(match request.command {
        HostCommand::Configure(device) => json(&browser.configure(device).await?),
        HostCommand::Navigate { uri, until } => json(&navigation::navigate(browser, &uri, until).await?),
        HostCommand::GoInHistory(direction) => json(&history::go(browser, direction).await?),
        HostCommand::Reload => json(&history::reload(browser).await?),
        HostCommand::HoldSubmissions { rule } => json(&submissions::follow(browser, rule).await),
        HostCommand::HeldSubmission => json(&submissions::held(browser).await),
        HostCommand::ReleaseSubmission => json(&submissions::release(browser).await?),
        HostCommand::Evaluate { script } => script::evaluate_raw(browser, &script).await?,
        HostCommand::Touch { steps } => json(&touch::inject(browser, &steps).await?),
        HostCommand::Keys { keys } => json(&keys::inject(browser, &keys).await?),
        HostCommand::Snapshot { full_page, file } => {
            json(&capture::snapshot(browser, full_page, browser.directory.join(file)).await?)
        }
        HostCommand::Pdf { file } => json(&capture::pdf(browser, &browser.directory.join(file)).await?),
        HostCommand::Cookies { at_most } => {
            let mut cookies = cookies::all(browser).await?;
            cookies.truncate(at_most.unwrap_or(usize::MAX));
            json(&cookies)
        }
        HostCommand::ReplaceCookies { cookies } => json(&cookies::replace(browser, &cookies).await?),
        HostCommand::Leave => json(&navigation::leave(browser).await),
        HostCommand::Page => json(&browser.page().await),
        HostCommand::Watch { whole, watcher } => json(&live::watch(browser, whole, watcher).await?),
        HostCommand::Unwatch { watcher } => json(&live::unwatch(browser, watcher)),
        HostCommand::GrantInput { lend } => json(&live::input_queue::lend(browser, lend).await?),
        HostCommand::InputIdle => json(&live::input_queue::rest(browser).await?),
        HostCommand::Act { acts } => json(&live::input_queue::act(browser, acts)?),
    })
}

/// GTK and WebKit read their environment as they start, and hand it to their processes.
fn prepare_environment(scale: u32) -> Result<(), String> {
    let scale = scale.to_string();
    let variables = [
        ("GDK_BACKEND", "x11"),
        ("GDK_SCALE", scale.as_str()),
        // An input method of the desktop would swallow keys; this one turns each into its character.
        ("GTK_IM_MODULE", "gtk-im-context-simple"),
        // The name of GTK's "Print to File" printer is translated.
        ("LC_ALL", "C.UTF-8"),
        // Nothing here needs D-Bus, and a machine may have none.
        ("GIO_USE_VFS", "local"),
        ("GSETTINGS_BACKEND", "memory"),
        ("NO_AT_BRIDGE", "1"),
    ];
    for (name, value) in variables {
        set(name, value)?;
    }
    // Either would open a port.
    for name in ["WEBKIT_INSPECTOR_SERVER", "WEBKIT_INSPECTOR_HTTP_SERVER"] {
        glib::unsetenv(name);
    }
    Ok(())
}
