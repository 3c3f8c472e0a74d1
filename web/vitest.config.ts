import { defineConfig } from "vitest/config";

/** Making a page takes longer than most tests: only those in .tsx have one. */
const tests = (environment: string, include: string) => ({
  extends: true as const,
  test: { name: environment, environment, include: [include] },
});

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  test: {
    setupFiles: ["tests/setup.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    projects: [tests("happy-dom", "tests/**/*.test.tsx"), tests("node", "tests/**/*.test.ts")],
  },
});
