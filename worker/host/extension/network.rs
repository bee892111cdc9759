//! State of the network that pages see (`navigator.onLine`, and the events `online` and `offline`).
//!
//! WebKit asks `GLib`'s monitor. The host selects the monitor without a source of its own (`GIO_USE_NETWORK_MONITOR`), because
//! the network of a browser has only a loopback, and sets here whether it has a route.

use std::cell::Cell;
use std::ffi::CStr;
use std::ptr::null_mut;

use gio::ffi::{GInetAddressMask, GNetworkMonitor, g_inet_address_mask_new_from_string, g_network_monitor_get_default};
use glib::ffi::{GType, gboolean};
use glib::gobject_ffi::{GTypeInstance, g_object_unref, g_type_check_instance_is_a};

// These functions are exported, but are in no public header.
#[link(name = "gio-2.0")]
unsafe extern "C" {
    fn g_network_monitor_base_get_type() -> GType;
    fn g_network_monitor_base_set_networks(
        monitor: *mut GNetworkMonitor,
        networks: *mut *mut GInetAddressMask,
        length: i32,
    );
}

const EVERYWHERE: [&CStr; 2] = [c"0.0.0.0/0", c"::/0"];

thread_local! {
    static IS_OFFLINE: Cell<bool> = const { Cell::new(false) };
}

/// Pages receive an event if this changes.
pub fn set_offline(is_offline: bool) {
    if IS_OFFLINE.replace(is_offline) == is_offline {
        return;
    }
    let networks = if is_offline { &[][..] } else { &EVERYWHERE[..] };
    // SAFETY: the default monitor lives as long as the process, and its type is checked. The texts are C strings, and the
    // monitor takes references of its own to the masks.
    unsafe {
        let monitor = g_network_monitor_get_default();
        let is_base: gboolean =
            g_type_check_instance_is_a(monitor.cast::<GTypeInstance>(), g_network_monitor_base_get_type());
        if is_base == 0 {
            return;
        }
        let mut masks: Vec<_> =
            networks.iter().map(|text| g_inet_address_mask_new_from_string(text.as_ptr(), null_mut())).collect();
        g_network_monitor_base_set_networks(
            monitor,
            masks.as_mut_ptr(),
            i32::try_from(masks.len()).unwrap_or_default(),
        );
        for mask in masks {
            g_object_unref(mask.cast());
        }
    }
}
