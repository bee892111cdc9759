//! Script that gives documents the properties of a device.

use kitfleet_host_protocol::Device;
use serde_json::{Value, json};

use crate::pointer::marks::{BESIDE, MARK};

/// Each getter is a proxy of WebKit's own one, so that it has the same name and throws the same errors.
/// `Function.prototype.toString` is also a proxy, because a proxy would otherwise be printed as such. The functions that
/// the proxies call are kept in this scope, where no page can change them.
pub fn device_script(device: &Device) -> String {
    let properties: [(&str, Value); 2] =
        [("platform", json!(device.platform)), ("maxTouchPoints", json!(device.max_touch_points))];
    let properties = json!(properties);
    format!(
        "{{
  const {{ apply }} = Reflect;
  const natives = [];
  const replaceText = String.prototype.replace;
  const replace = (owner, name, slot, call) => {{
    const property = Object.getOwnPropertyDescriptor(owner, name);
    if (!property) return;
    const native = property[slot];
    const proxy = new Proxy(native, {{ apply: (target, self, list) => call(native, self, list) }});
    natives[natives.length] = {{ proxy, native }};
    Object.defineProperty(owner, name, {{ ...property, [slot]: proxy }});
  }};
  for (const [name, value] of {properties}) {{
    replace(Navigator.prototype, name, 'get', (native, self, list) => (apply(native, self, list), value));
  }}
  // Mouse events that accompany a touch are marked by their place on the screen (`pointer/marks.rs`).
  const {{ get: place }} = Object.getOwnPropertyDescriptor(MouseEvent.prototype, 'screenX');
  const atOrigin = (value) => (value >= {BESIDE} ? value - {BESIDE} : value);
  replace(MouseEvent.prototype, 'screenX', 'get', (native, self, list) => atOrigin(apply(native, self, list) % {MARK}));
  replace(MouseEvent.prototype, 'screenY', 'get', (native, self, list) => atOrigin(apply(native, self, list)));
  replace(PointerEvent.prototype, 'pointerType', 'get', (native, self, list) => {{
    const type = apply(native, self, list);
    return type === 'mouse' && apply(place, self, []) < 2 * {MARK} ? 'touch' : type;
  }});
  // A finger comes from no element and goes to none.
  const isPointerEvent = Object.prototype.isPrototypeOf.bind(PointerEvent.prototype);
  replace(MouseEvent.prototype, 'relatedTarget', 'get', (native, self, list) => {{
    const target = apply(native, self, list);
    const mark = apply(place, self, []);
    return mark >= {MARK} && mark < 2 * {MARK} && isPointerEvent(self) ? null : target;
  }});
  // A window of a phone is at the origin of its screen.
  for (const name of ['screenX', 'screenY', 'screenLeft', 'screenTop']) {{
    replace(globalThis, name, 'get', (native, self, list) => (apply(native, self, list), 0));
  }}
  // Safari on iOS has notifications in web applications of the home screen only.
  delete globalThis.Notification;
  const {{ get: online }} = Object.getOwnPropertyDescriptor(Navigator.prototype, 'onLine');
  const standalone = new Proxy(online, {{
    apply: (target, self, list) => (apply(target, self, list), false),
    get: (target, name) => (name === 'name' ? 'get standalone' : target[name]),
  }});
  natives[natives.length] = {{ proxy: standalone, native: online, from: 'onLine', to: 'standalone' }};
  Object.defineProperty(Navigator.prototype, 'standalone', {{ get: standalone, set: undefined, enumerable: true, configurable: true }});
  // The orientation of a phone, by the size of its screen.
  const sides = ['width', 'height'].map((name) => Object.getOwnPropertyDescriptor(Screen.prototype, name).get);
  const {{ screen }} = globalThis;
  const isLandscape = () => apply(sides[0], screen, []) > apply(sides[1], screen, []);
  const turn = () => (isLandscape() ? 90 : 0);
  if (globalThis.ScreenOrientation) {{
    const type = () => (isLandscape() ? 'landscape-primary' : 'portrait-primary');
    replace(ScreenOrientation.prototype, 'type', 'get', (native, self, list) => (apply(native, self, list), type()));
    replace(ScreenOrientation.prototype, 'angle', 'get', (native, self, list) => (apply(native, self, list), turn()));
  }}
  const {{ get: width }} = Object.getOwnPropertyDescriptor(globalThis, 'innerWidth');
  const angle = new Proxy(width, {{
    apply: (target, self, list) => (apply(target, self, list), turn()),
    get: (target, name) => (name === 'name' ? 'get orientation' : target[name]),
  }});
  natives[natives.length] = {{ proxy: angle, native: width, from: 'innerWidth', to: 'orientation' }};
  Object.defineProperty(globalThis, 'orientation', {{ get: angle, set: undefined, enumerable: true, configurable: true }});
  let handler = null;
  Object.defineProperty(globalThis, 'onorientationchange', {{
    get: () => handler,
    set: (value) => {{ handler = typeof value === 'function' ? value : null; }},
    enumerable: true,
    configurable: true,
  }});
  const dispatch = EventTarget.prototype.dispatchEvent;
  const [NativeEvent, window, orientation] = [Event, globalThis, screen.orientation];
  let before = turn();
  addEventListener('resize', () => {{
    if (turn() === before) return;
    before = turn();
    const event = new NativeEvent('orientationchange');
    if (handler) apply(handler, window, [event]);
    apply(dispatch, window, [event]);
    if (orientation) apply(dispatch, orientation, [new NativeEvent('change')]);
  }}, true);
  replace(Function.prototype, 'toString', 'value', (native, self, list) => {{
    for (let index = 0; index < natives.length; index++) {{
      if (natives[index].proxy !== self) continue;
      const {{ native: real, from, to }} = natives[index];
      const text = apply(native, real, list);
      return from ? apply(replaceText, text, [from, to]) : text;
    }}
    return apply(native, self, list);
  }});
}}"
    )
}
