/** A list to choose one of, with its name before it. */

export interface Option {
  key: string;
  name: string;
  /** The heading it is under, if any. */
  group?: string;
}

interface Props {
  label: string;
  options: readonly Option[];
  value: string;
  onChange: (key: string) => void;
}

export function Choice({ label, options, value, onChange }: Props) {
  const groups = [...new Set(options.map(({ group }) => group ?? ""))];
  return (
    <label class="option">
      {label}{" "}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {groups.map((group) => {
          const members = options
            .filter((option) => (option.group ?? "") === group)
            .map(({ key, name }) => (
              <option key={key} value={key}>
                {name}
              </option>
            ));
          return group ? (
            <optgroup key={group} label={group}>
              {members}
            </optgroup>
          ) : (
            members
          );
        })}
      </select>
    </label>
  );
}
