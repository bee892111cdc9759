// Returns the document as HTML, unless it has more than `input.limit` bytes as JSON.
const doctype = document.doctype ? `${new XMLSerializer().serializeToString(document.doctype)}\n` : '';
const html = clean(doctype + (document.documentElement?.outerHTML ?? ''));
const bytes = html.length > input.limit ? html.length : jsonSize(html);
return bytes > input.limit ? { bytes } : { bytes, html };
