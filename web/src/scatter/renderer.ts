/**
 * Draws many points. Coordinates, colours and sizes are uploaded when they change; panning and
 * zooming only change four numbers of the vertex shader.
 *
 * regl-scatterplot would do more, but regl builds its functions from text with `new Function`, which
 * the page's content security policy forbids.
 */
import type { Box, Size } from "./camera";
import { CanvasRenderer, softwareContext } from "./canvas";

export interface Points {
  x: Float32Array;
  y: Float32Array;
  /** Where the coordinates lie. */
  whole: Box;
}

export interface Look {
  /** Red, green, blue and opacity of every point, not premultiplied. */
  rgba: Uint8Array;
  /** Diameters in sixteenths of a CSS pixel. */
  sizes: Uint8Array;
  /** The points to draw, from the lowest to the uppermost. */
  order: Uint32Array;
}

export const SIXTEENTHS = 16;

export interface Renderer {
  place(points: Points): void;
  style(look: Look): void;
  draw(box: Box, size: Size, ratio: number): void;
  dispose(): void;
}

/**
 * A renderer by WebGL2 on a graphics card, or without one by pixels, or none where there is no
 * canvas. `fast` says whether there is a card.
 */
export function createRenderer(
  canvas: HTMLCanvasElement,
  fast = hasGraphicsCard(),
): Renderer | null {
  // The drawing is kept so that the panel can be saved as a picture.
  const gl = fast
    ? canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true })
    : null;
  if (gl) return new GlRenderer(canvas, gl);
  const context = softwareContext(canvas);
  return context && new CanvasRenderer(context);
}

const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;
let card: boolean | undefined;

/** Whether WebGL2 runs on a graphics card. Browsers do not always say so when a context is asked for. */
function hasGraphicsCard(): boolean {
  card ??= !SOFTWARE.test(graphicsName());
  return card;
}

function graphicsName(): string {
  const gl = document
    .createElement("canvas")
    .getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!gl) return "software";
  const names = gl.getExtension("WEBGL_debug_renderer_info");
  const name = String(gl.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return name;
}

const VERTEX = `#version 300 es
in vec2 place;
in vec4 colour;
in float size;
uniform vec2 scale, shift;
uniform float ratio;
out vec4 tint;
out float radius;
void main() {
  gl_Position = vec4(place * scale + shift, 0.0, 1.0);
  gl_PointSize = max(size * ratio, 1.0);
  radius = gl_PointSize / 2.0;
  tint = vec4(colour.rgb * colour.a, colour.a);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 tint;
in float radius;
out vec4 seen;
void main() {
  float inside = (1.0 - length(gl_PointCoord * 2.0 - 1.0)) * radius + 0.5;
  seen = tint * clamp(inside, 0.0, 1.0);
}`;

class GlRenderer implements Renderer {
  private readonly program: WebGLProgram;
  private readonly order: WebGLBuffer;
  private count = 0;
  private whole: Box = { x: [0, 1], y: [0, 1] };

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly gl: WebGL2RenderingContext,
  ) {
    this.program = link(gl);
    this.order = gl.createBuffer();
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.order);
    gl.useProgram(this.program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  place({ x, y, whole }: Points): void {
    this.whole = whole;
    this.attribute("place", normalized(x, y, whole), 2, this.gl.FLOAT, false);
  }

  style({ rgba, sizes, order }: Look): void {
    const { gl } = this;
    this.attribute("colour", rgba, 4, gl.UNSIGNED_BYTE, true);
    this.attribute("size", sizes, 1, gl.UNSIGNED_BYTE, false);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, order, gl.STATIC_DRAW);
    this.count = order.length;
  }

  draw(box: Box, size: Size, ratio: number): void {
    const { gl, canvas } = this;
    resize(canvas, size, ratio);
    gl.viewport(0, 0, canvas.width, canvas.height);
    const [x, y] = [clip(this.whole.x, box.x), clip(this.whole.y, box.y)];
    gl.uniform2f(this.uniform("scale"), x.scale, y.scale);
    gl.uniform2f(this.uniform("shift"), x.shift, y.shift);
    gl.uniform1f(this.uniform("ratio"), ratio / SIXTEENTHS);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.drawElements(gl.POINTS, this.count, gl.UNSIGNED_INT, 0);
  }

  dispose(): void {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  private readonly buffers = new Map<string, WebGLBuffer>();
  private readonly uniforms = new Map<string, WebGLUniformLocation | null>();

  private attribute(
    name: string,
    values: ArrayBufferView<ArrayBufferLike>,
    width: number,
    type: number,
    unit: boolean,
  ): void {
    const { gl } = this;
    const buffer = this.buffers.get(name) ?? gl.createBuffer();
    this.buffers.set(name, buffer);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    const location = gl.getAttribLocation(this.program, name);
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, width, type, unit, 0, 0);
  }

  private uniform(name: string): WebGLUniformLocation | null {
    if (!this.uniforms.has(name))
      this.uniforms.set(name, this.gl.getUniformLocation(this.program, name));
    return this.uniforms.get(name)!;
  }
}

function link(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram();
  for (const [type, source] of [
    [gl.VERTEX_SHADER, VERTEX],
    [gl.FRAGMENT_SHADER, FRAGMENT],
  ] as const) {
    const shader = gl.createShader(type)!;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(`The shaders do not link: ${gl.getProgramInfoLog(program)}`);
  }
  return program;
}

/** Coordinates from 0 to 1 over the whole, so that 32 bits are enough at every zoom. */
function normalized(x: Float32Array, y: Float32Array, whole: Box): Float32Array {
  const places = new Float32Array(2 * x.length);
  const [width, height] = [whole.x[1] - whole.x[0], whole.y[1] - whole.y[0]];
  for (let n = 0; n < x.length; n++) {
    places[2 * n] = (x[n]! - whole.x[0]) / width;
    places[2 * n + 1] = (y[n]! - whole.y[0]) / height;
  }
  return places;
}

/** The map from 0..1 over the whole to clip coordinates, -1..1 over what is seen. */
export function clip(
  whole: readonly [number, number],
  seen: readonly [number, number],
): { scale: number; shift: number } {
  const width = seen[1] - seen[0];
  return {
    scale: (2 * (whole[1] - whole[0])) / width,
    shift: (2 * (whole[0] - seen[0])) / width - 1,
  };
}

/** Give a canvas its pixels; setting them again would clear it, so only on change, which is returned. */
export function resize(canvas: HTMLCanvasElement, size: Size, ratio: number): boolean {
  const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
  if (canvas.width === width && canvas.height === height) return false;
  Object.assign(canvas, { width, height });
  return true;
}
