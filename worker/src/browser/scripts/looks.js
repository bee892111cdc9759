// Detection of form fields by their appearance.

const textFields = () =>
  [...queryIn(document, 'input, textarea')].filter(
    (field) => takesText(field) && field.type !== 'password' && !field.disabled && !field.readOnly && isVisible(field),
  );

const labelled = (element) =>
  [element.name, element.id, element.placeholder, element.getAttribute('aria-label'), element.autocomplete]
    .filter(Boolean)
    .join(' ');

// Returns candidates for a purpose, the most likely first.
const byLooks = (use) => {
  switch (use) {
    case 'search': {
      const declared = [
        ...queryIn(document, 'input[type=search], [role=searchbox], [role=search] input, form[action*=search i] input'),
      ].filter((element) => takesText(element) && isVisible(element));
      const named = textFields().filter((field) => /^(q|s|query|keywords?)$/i.test(field.name) || /search/i.test(labelled(field)));
      return [...declared, ...named];
    }
    case 'password':
      return [...queryIn(document, 'input[type=password]')].filter(
        (field) => !field.disabled && !field.readOnly && isVisible(field),
      );
    case 'username': {
      const fields = textFields();
      const password = byLooks('password')[0];
      const before = fields.filter(
        (field) => password && field.compareDocumentPosition(password) & Node.DOCUMENT_POSITION_FOLLOWING,
      );
      return [
        ...fields.filter((field) => /\busername\b/i.test(field.autocomplete)),
        ...before.filter((field) => field.form === password.form).reverse(),
        ...before.reverse(),
        ...fields.filter((field) => field.type === 'email' || /user|e-?mail|login|account|phone/i.test(labelled(field))),
      ];
    }
    case 'submit': {
      const field = byLooks('password')[0] ?? focused();
      const buttons = [...queryIn(field?.form ?? document, 'button, input[type=submit], [role=button]')].filter(isVisible);
      const says = (button) => (button.innerText || button.value || labelled(button)).trim();
      return [
        ...buttons.filter((button) => field?.form && button.type === 'submit'),
        ...buttons.filter((button) => /^(log ?in|sign ?in|continue|next|submit)\b/i.test(says(button))),
      ];
    }
  }
};
