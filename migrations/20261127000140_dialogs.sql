-- Dialog of the page that waits for an answer, as the API shows it: null when there is none. The version before leaves the column
-- null, and opens browsers that hold no dialogs.
alter table sessions add column dialog jsonb;
