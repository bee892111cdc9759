//! Menus of `<select>` elements. They are passed to a person who sends input. Without a person they are closed as they open.

use std::rc::Rc;

use kitfleet_host_protocol::{DialogRequest, MenuItem};
use webkit2gtk::{OptionMenu, OptionMenuExt};

use crate::browser::Browser;
use crate::dialogs;

const MAX_ITEMS: u32 = 1_000;

/// In characters.
const LABEL_CHARS: usize = 256;

/// For a viewer.
pub fn asked(browser: &Browser) -> DialogRequest {
    DialogRequest { menu: browser.live.open.menu.borrow().as_ref().map(items), dialog: browser.dialogs.open() }
}

pub fn is_open(browser: &Browser) -> bool {
    browser.live.open.menu.borrow().is_some() || browser.dialogs.is_open()
}

/// The end closes the open menu, and leaves an open dialog to the policy.
pub fn lend(browser: &Rc<Browser>, lend: bool) {
    browser.live.open.person.set(lend);
    if !lend {
        choose(browser, None);
    }
    dialogs::lend(browser, lend);
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
                browser.live.request_again();
            }
        }
    });
    open.menu.replace(Some(menu));
    browser.live.request_again();
}

pub fn choose(browser: &Browser, index: Option<u32>) {
    let Some(menu) = browser.live.open.menu.take() else { return };
    if let Some(index) = index.filter(|index| *index < menu.n_items()) {
        menu.activate_item(index);
    }
    menu.close();
    browser.live.request_again();
}

fn items(menu: &OptionMenu) -> Vec<MenuItem> {
    let items = (0..menu.n_items().min(MAX_ITEMS)).filter_map(|index| menu.item(index));
    let item = |mut item: webkit2gtk::OptionMenuItem| MenuItem {
        label: item.label().map(|label| label.chars().take(LABEL_CHARS).collect()).unwrap_or_default(),
        enabled: item.is_enabled(),
        selected: item.is_selected(),
        group: item.is_group_label(),
    };
    items.map(item).collect()
}
