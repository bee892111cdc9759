// The document as HTML, unless it is larger than `input.limit`.
const doctype = document.doctype ? `${new XMLSerializer().serializeToString(document.doctype)}\n` : '';
const html = clean(doctype + (document.documentElement?.outerHTML ?? ''));
const bytes = new TextEncoder().encode(html).length;
return bytes > input.limit ? { bytes } : { bytes, html };
