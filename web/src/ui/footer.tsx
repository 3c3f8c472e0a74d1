/** The foot of the page: the model in one sentence, and what the page is. */
import type { Model } from "../model";
import { manifest } from "../state";
import { thousands } from "../text";

export function Footer({ model }: { model: Model | undefined }) {
  const { version, served } = manifest.value;
  return (
    <footer class="foot">
      {model && (
        <p>
          <bdi>{model.data.name}</bdi>, trained on <bdi>{model.data.dataName}</bdi>, step{" "}
          {thousands(model.data.step)}. {model.data.headline}.
        </p>
      )}
      <p>
        unweave {version}. The networks run in your browser;{" "}
        {served ? "the page talks only to the server on your computer." : "the page sends nothing."}
      </p>
    </footer>
  );
}
