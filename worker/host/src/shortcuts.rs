//! Shortcuts for editing text that a keyboard has on iOS. GTK has only those of `Control`.
//!
//! WebKit asks GTK which bindings of a text view an event has, and runs them as editing commands. A binding of `Meta` alone
//! would also match the plain key, because the display has no such modifier. `keys.rs` therefore sends the fourth modifier with
//! it, which GTK calls `Super`.

use std::ffi::CStr;

const BINDINGS: [&CStr; 20] = [
    c"bind \"<Super><Meta>a\" { \"select-all\" (1) }",
    c"bind \"<Super><Meta>c\" { \"copy-clipboard\" () }",
    c"bind \"<Super><Meta>x\" { \"cut-clipboard\" () }",
    c"bind \"<Super><Meta>v\" { \"paste-clipboard\" () }",
    c"bind \"<Super><Meta>Left\" { \"move-cursor\" (display-line-ends, -1, 0) }",
    c"bind \"<Super><Meta>Right\" { \"move-cursor\" (display-line-ends, 1, 0) }",
    c"bind \"<Super><Meta>Up\" { \"move-cursor\" (buffer-ends, -1, 0) }",
    c"bind \"<Super><Meta>Down\" { \"move-cursor\" (buffer-ends, 1, 0) }",
    c"bind \"<Shift><Super><Meta>Left\" { \"move-cursor\" (display-line-ends, -1, 1) }",
    c"bind \"<Shift><Super><Meta>Right\" { \"move-cursor\" (display-line-ends, 1, 1) }",
    c"bind \"<Shift><Super><Meta>Up\" { \"move-cursor\" (buffer-ends, -1, 1) }",
    c"bind \"<Shift><Super><Meta>Down\" { \"move-cursor\" (buffer-ends, 1, 1) }",
    c"bind \"<Super><Meta>BackSpace\" { \"delete-from-cursor\" (display-line-ends, -1) }",
    c"bind \"<Super><Meta>Delete\" { \"delete-from-cursor\" (display-line-ends, 1) }",
    c"bind \"<Alt>Left\" { \"move-cursor\" (words, -1, 0) }",
    c"bind \"<Alt>Right\" { \"move-cursor\" (words, 1, 0) }",
    c"bind \"<Shift><Alt>Left\" { \"move-cursor\" (words, -1, 1) }",
    c"bind \"<Shift><Alt>Right\" { \"move-cursor\" (words, 1, 1) }",
    c"bind \"<Alt>BackSpace\" { \"delete-from-cursor\" (word-ends, -1) }",
    c"bind \"<Alt>Delete\" { \"delete-from-cursor\" (word-ends, 1) }",
];

/// GTK must be initialized.
pub fn install() {
    // SAFETY: the class is registered, and this reference to it is never released. The bindings are C strings, which GTK copies.
    unsafe {
        let class = glib::gobject_ffi::g_type_class_ref(gtk::ffi::gtk_text_view_get_type());
        let bindings = gtk::ffi::gtk_binding_set_by_class(class.cast());
        for binding in BINDINGS {
            gtk::ffi::gtk_binding_entry_add_signal_from_string(bindings, binding.as_ptr());
        }
    }
}
