//! WebKit in a window of a device's size, controlled by commands on standard input.
//!
//! There is no WebDriver: a page can detect no automation session, and reach no port. Everything runs on GTK's main loop, where
//! each command is a separate future.

mod acknowledgement;
mod arguments;
mod browser;
mod capture;
mod channel;
mod choosers;
mod clock;
mod configuration;
mod console;
mod cookies;
mod device_script;
mod dialogs;
mod downloads;
mod drag;
mod emulation;
mod evaluate;
mod extension;
mod failure;
mod history;
mod keys;
mod launch;
mod live;
mod navigation;
mod pages;
mod pointer;
mod recording;
mod responses;
mod screen;
mod script;
mod shortcuts;
mod submissions;
mod text;
mod touch;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{FromRawFd, RawFd};
use std::process::ExitCode;
use std::rc::Rc;

use clap::Parser;
use kitfleet_host_protocol::{HostCommand, HostError, Message, Outcome, Region, Request};
use serde_json::value::RawValue;
use webkit2gtk::WebViewExt;

use crate::arguments::Arguments;
use crate::browser::Browser;
use crate::channel::{Output, json};

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The worker copies a host's standard error to its log.
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
    shortcuts::install();

    let browser = launch::start(arguments, output.clone())?;
    channel::read_requests({
        let browser = browser.clone();
        move |request| execute_concurrently(&browser, &output, request)
    });
    gtk::main();
    // A page that blocks would otherwise keep its process for another 10 s.
    for page in browser.pages.all() {
        page.view.terminate_web_process();
    }
    browser.pages.clear();
    if browser.extension.is_missing.get() {
        return Err("WebKit did not load the web-process extension".to_owned());
    }
    Ok(())
}

/// Waits until the display's server listens, and returns the display's name. The server starts in parallel to this
/// process.
fn display(number: RawFd) -> Result<String, String> {
    // SAFETY: the parent process opened the file for this process, and no other code here uses the descriptor.
    let number = unsafe { File::from_raw_fd(number) };
    let mut line = String::new();
    // A server that fails to start closes the pipe without writing a line.
    BufReader::new(number).read_line(&mut line).map_err(|error| format!("the display's number: {error}"))?;
    match line.trim().parse::<u32>() {
        Ok(number) => Ok(format!(":{number}")),
        Err(_) => Err("there is no display".to_owned()),
    }
}

fn set(name: &str, value: &str) -> Result<(), String> {
    glib::setenv(name, value, true).map_err(|error| format!("{name}: {error}"))
}

/// Runs a command concurrently with others.
fn execute_concurrently(browser: &Rc<Browser>, output: &Output, request: Request) {
    let (browser, output) = (browser.clone(), output.clone());
    glib::MainContext::default().spawn_local(async move {
        let id = request.id;
        let outcome = match execute(&browser, request).await {
            Ok(value) => Outcome::Ok(value),
            Err(error) => Outcome::Error(error),
        };
        output.send(&Message::Reply { id, outcome });
    });
}

async fn execute(browser: &Rc<Browser>, request: Request) -> Result<Box<RawValue>, HostError> {
    if browser.dialogs.is_blocking() && needs_page(&request.command) {
        return Err(HostError::DialogOpen);
    }
    let page = &browser.pages.active();
    Ok(match request.command {
        HostCommand::Configure(device) => {
            let emulation = device.emulation.clone();
            configuration::configure(browser, device).await?;
            json(&emulation::apply(browser, &emulation).await?)
        }
        HostCommand::Navigate { uri, until } => json(&navigation::navigate(page, &uri, until).await?),
        HostCommand::EndNavigation => json(&navigation::end(page)),
        HostCommand::GoInHistory(direction) => json(&history::go(page, direction).await?),
        HostCommand::Reload => json(&history::reload(page).await?),
        HostCommand::HoldSubmissions { rule, requests } => json(&submissions::follow(browser, rule, requests).await),
        HostCommand::HeldSubmission => json(&submissions::held(browser).await),
        HostCommand::ReleaseSubmission => json(&submissions::release(browser).await?),
        HostCommand::SetHeaders { headers } => json(&browser.extension.set_headers(headers)?),
        HostCommand::PaintPicture => json(&recording::pictures::paint(browser)?),
        HostCommand::RecordPicture { covers } => json(&recording::pictures::record(browser, covers).await?),
        HostCommand::DiscardPicture => json(&browser.recording.pictures.discard()),
        HostCommand::TakeEvents => json(&browser.recording.take()),
        HostCommand::Evaluate { script } => script::evaluate_raw(page, &script).await?,
        HostCommand::RunScript { script, arguments, limit_bytes, as_condition } => {
            json(&evaluate::run(page, &script, &arguments, (limit_bytes, as_condition)).await?)
        }
        HostCommand::Touch { steps, aimed } => json(&touch::inject(page, &steps, aimed).await?),
        HostCommand::Mouse { steps } => json(&pointer::inject(page, &steps).await?),
        HostCommand::Drag { has_finger, points } => json(&drag::inject(page, has_finger, &points).await?),
        HostCommand::Keys { keys } => json(&keys::inject(page, &keys).await?),
        HostCommand::InsertText { text } => json(&keys::insert(page, &text).await),
        HostCommand::Snapshot { region, reveal, format, css_pixels, file } => {
            let output = capture::Output { format, css_pixels, path: browser.directory.join(file) };
            if browser.dialogs.is_blocking() {
                json(&capture::last_picture(page, output).await?)
            } else {
                let picture = capture::snapshot(page, region, reveal, output);
                json(&pages::uninterrupted(page, picture).await?)
            }
        }
        HostCommand::Pdf { layout, file } => {
            let file = browser.directory.join(file);
            json(&pages::uninterrupted(page, capture::pdf(page, &layout, &file)).await?)
        }
        HostCommand::Cookies { at_most } => {
            let mut cookies = cookies::all(browser).await?;
            cookies.truncate(at_most.unwrap_or(usize::MAX));
            json(&cookies)
        }
        HostCommand::ReplaceCookies { cookies } => json(&cookies::replace(browser, &cookies).await?),
        HostCommand::SetCookies { cookies } => json(&cookies::set(browser, &cookies).await?),
        HostCommand::DeleteCookies { cookie, domain, path } => {
            json(&cookies::delete(browser, &cookies::Filter { name: cookie, domain, path }).await?)
        }
        HostCommand::Emulate { emulation } => json(&emulation::apply(browser, &emulation).await?),
        HostCommand::Leave => json(&navigation::leave_all_pages(browser).await),
        HostCommand::Page => json(&pages::state(page).await),
        HostCommand::Pages => json(&pages::list(browser)),
        HostCommand::OpenPage => json(&pages::open(browser).await?),
        HostCommand::ActivatePage { page } => json(&pages::activate(&browser.pages.find(page)?)),
        HostCommand::ClosePage { page } => json(&pages::close(browser, page).await?),
        HostCommand::TakeDialogs => json(&browser.dialogs.take_shown()),
        HostCommand::AwaitDialog => json(&browser.dialogs.next().await),
        HostCommand::OpenDialog => json(&browser.dialogs.open()),
        HostCommand::AnswerDialog { accept, text } => json(&dialogs::answer(browser, accept, text.as_deref())),
        HostCommand::ChooserOpen => json(&choosers::find(browser).await),
        HostCommand::SelectFiles { files } => json(&choosers::select(browser, &files).await?),
        HostCommand::Downloads => json(&browser.downloads.list()),
        HostCommand::LoadProgress => json(&navigation::progress::read(page).await),
        HostCommand::Responses { after, since_us } => json(&browser.responses.list(after, since_us)),
        HostCommand::Watch { whole, watcher } => json(&live::watch(browser, whole, watcher).await?),
        HostCommand::Unwatch { watcher } => json(&live::unwatch(browser, watcher)),
        HostCommand::GrantInput { lend } => json(&live::input_queue::lend(browser, lend).await?),
        HostCommand::InputIdle => json(&live::input_queue::finish(browser).await?),
        HostCommand::Act { acts } => json(&live::input_queue::act(browser, acts)?),
    })
}

/// True for a command that the page would handle only after the answer to its dialog.
fn needs_page(command: &HostCommand) -> bool {
    matches!(
        command,
        HostCommand::Navigate { .. }
            | HostCommand::GoInHistory(_)
            | HostCommand::Reload
            | HostCommand::ReleaseSubmission
            | HostCommand::Evaluate { .. }
            | HostCommand::RunScript { .. }
            | HostCommand::Touch { .. }
            | HostCommand::Mouse { .. }
            | HostCommand::Drag { .. }
            | HostCommand::Keys { .. }
            | HostCommand::InsertText { .. }
            | HostCommand::Snapshot { region: Region::Document | Region::Clip(_), .. }
            | HostCommand::Pdf { .. }
            | HostCommand::Emulate { .. }
            | HostCommand::SelectFiles { .. }
    )
}

/// Sets the environment that GTK and WebKit read at their start and pass to their processes.
fn prepare_environment(scale: u32) -> Result<(), String> {
    let scale = scale.to_string();
    let variables = [
        ("GDK_BACKEND", "x11"),
        ("GDK_SCALE", scale.as_str()),
        // A desktop's input method would intercept keys. This one converts each key to its character.
        ("GTK_IM_MODULE", "gtk-im-context-simple"),
        // The name of GTK's "Print to File" printer is translated.
        ("LC_ALL", "C.UTF-8"),
        // Nothing here needs D-Bus, and a machine may not have it.
        ("GIO_USE_VFS", "local"),
        ("GSETTINGS_BACKEND", "memory"),
        ("NO_AT_BRIDGE", "1"),
        // The monitor that reads routes would report that a browser is offline, because its network has only a loopback.
        ("GIO_USE_NETWORK_MONITOR", "base"),
    ];
    for (name, value) in variables {
        set(name, value)?;
    }
    // Each of these would open a port.
    for name in ["WEBKIT_INSPECTOR_SERVER", "WEBKIT_INSPECTOR_HTTP_SERVER"] {
        glib::unsetenv(name);
    }
    Ok(())
}
