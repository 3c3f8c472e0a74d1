/** The value of a key that a record itself has: names from links and stores may be "constructor". */
export function own<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
