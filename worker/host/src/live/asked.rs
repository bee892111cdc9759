//! Dialogs and `<select>` menus of a page. They are passed to a person who sends input. Without a person they are closed
//! as they open.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use kitfleet_host_protocol::{Dialog, DialogKind, DialogRequest, MenuItem};
use webkit2gtk::{OptionMenu, OptionMenuExt, ScriptDialog, ScriptDialogType};

use crate::browser::{self, Browser};
use crate::failure::words;

/// Maximum number of options that are shown.
const MOST_ITEMS: u32 = 1_000;

/// Maximum length of an option's label, in characters.
const LABEL_CHARS: usize = 256;

#[derive(Default)]
pub struct Open {
    /// True while a person sends input.
    person: Cell<bool>,
    menu: RefCell<Option<OptionMenu>>,
    dialog: RefCell<Option<ScriptDialog>>,
}

impl Open {
    /// The open dialog and menu, for a viewer.
    pub fn asked(&self) -> DialogRequest {
        DialogRequest {
            menu: self.menu.borrow().as_ref().map(items),
            dialog: self.dialog.borrow().as_ref().map(dialog),
        }
    }
}

/// True when a dialog or a menu waits for an answer.
pub fn is_open(browser: &Browser) -> bool {
    let open = &browser.live.open;
    open.menu.borrow().is_some() || open.dialog.borrow().is_some()
}

/// Starts or ends the input of a person. The end closes the open dialog and menu.
pub fn lend(browser: &Browser, lend: bool) {
    browser.live.open.person.set(lend);
    if !lend {
        choose(browser, None);
        if let Some(dialog) = browser.live.open.dialog.take() {
            browser::answer(&dialog);
            dialog.close();
            browser.live.asks_anew();
        }
    }
}

/// Passes the options of a `<select>` to a person, or closes them.
pub fn open_menu(browser: &Rc<Browser>, menu: OptionMenu) {
    let open = &browser.live.open;
    if !open.person.get() {
        // WebKit is still showing the menu, and would use memory that closing frees.
        glib::idle_add_local_once(move || menu.close());
        return;
    }
    let weak = Rc::downgrade(browser);
    menu.connect_close(move |closed| {
        if let Some(browser) = weak.upgrade() {
            let is_it = browser.live.open.menu.borrow().as_ref() == Some(closed);
            if is_it {
                browser.live.open.menu.take();
                browser.live.asks_anew();
            }
        }
    });
    open.menu.replace(Some(menu));
    browser.live.asks_anew();
}

/// Passes a dialog to a person, or answers it.
pub fn open_dialog(browser: &Browser, dialog: &ScriptDialog) {
    let open = &browser.live.open;
    if !open.person.get() {
        browser::answer(dialog);
        return;
    }
    // The page waits until the dialog is closed.
    if let Some(former) = open.dialog.replace(Some(dialog.clone())) {
        browser::answer(&former);
        former.close();
    }
    browser.live.asks_anew();
}

pub fn choose(browser: &Browser, index: Option<u32>) {
    let Some(menu) = browser.live.open.menu.take() else { return };
    if let Some(index) = index.filter(|index| *index < menu.n_items()) {
        menu.activate_item(index);
    }
    menu.close();
    browser.live.asks_anew();
}

pub fn answer(browser: &Browser, accept: bool, text: Option<&str>) {
    let Some(dialog) = browser.live.open.dialog.take() else { return };
    match dialog.dialog_type() {
        ScriptDialogType::Prompt if accept => dialog.prompt_set_text(text.unwrap_or_default()),
        ScriptDialogType::Confirm | ScriptDialogType::BeforeUnloadConfirm => dialog.confirm_set_confirmed(accept),
        _ => {}
    }
    dialog.close();
    browser.live.asks_anew();
}

fn items(menu: &OptionMenu) -> Vec<MenuItem> {
    let items = (0..menu.n_items().min(MOST_ITEMS)).filter_map(|index| menu.item(index));
    let item = |mut item: webkit2gtk::OptionMenuItem| MenuItem {
        label: item.label().map(|label| label.chars().take(LABEL_CHARS).collect()).unwrap_or_default(),
        enabled: item.is_enabled(),
        selected: item.is_selected(),
        group: item.is_group_label(),
    };
    items.map(item).collect()
}

fn dialog(dialog: &ScriptDialog) -> Dialog {
    let kind = match dialog.dialog_type() {
        ScriptDialogType::Confirm => DialogKind::Confirm,
        ScriptDialogType::Prompt => DialogKind::Prompt,
        ScriptDialogType::BeforeUnloadConfirm => DialogKind::BeforeUnload,
        _ => DialogKind::Alert,
    };
    let default = (kind == DialogKind::Prompt).then(|| dialog.prompt_get_default_text()).flatten();
    Dialog {
        kind,
        message: dialog.message().map(|message| words(&message)).unwrap_or_default(),
        default: default.map(|text| words(&text)),
    }
}
