/** A table of any length, a hundred rows at a time. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

const PAGE = 100;

interface Props<Row> {
  of: readonly Row[];
  /** What the rows are, "runs". */
  name: string;
  children: (page: readonly Row[]) => ComponentChildren;
}

export function Pages<Row>({ of: rows, name, children }: Props<Row>) {
  const [page, setPage] = useState(0);
  const last = Math.max(Math.ceil(rows.length / PAGE) - 1, 0);
  const at = Math.min(page, last);
  const [from, to] = [at * PAGE, Math.min((at + 1) * PAGE, rows.length)];
  return (
    <>
      <div class="table" role="region" aria-label={`Table of ${name}`} tabIndex={0}>
        {children(rows.slice(from, to))}
      </div>
      {rows.length === 0 && <p class="help">No run passes the filter.</p>}
      {last > 0 && (
        <div class="pages" role="group" aria-label={`Pages of ${name}`}>
          <button type="button" disabled={at === 0} onClick={() => setPage(at - 1)}>
            Previous
          </button>
          <span role="status">
            {from + 1} to {to} of {rows.length}
          </span>
          <button type="button" disabled={at === last} onClick={() => setPage(at + 1)}>
            Next
          </button>
        </div>
      )}
    </>
  );
}
