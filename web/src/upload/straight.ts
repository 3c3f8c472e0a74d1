/** Pixels as a file has them. A 2-D canvas multiplies colours by their opacity, which loses those of
 * transparent pixels; a WebGL texture keeps them. */

/** The RGBA of a bitmap that was made without multiplication; null if the browser cannot tell. */
export function straightPixels(bitmap: ImageBitmap): Uint8ClampedArray | null {
  const gl = document.createElement("canvas").getContext("webgl2");
  if (
    !gl ||
    Math.max(bitmap.width, bitmap.height) > (gl.getParameter(gl.MAX_TEXTURE_SIZE) as number)
  )
    return null;
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.pixelStorei(gl.UNPACK_PREMULTIPLY_ALPHA_WEBGL, false);
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, bitmap);
  const rgba = readTexture(gl, bitmap.width, bitmap.height);
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return rgba;
}

/** The pixels of the bound texture, the first row first. */
function readTexture(
  gl: WebGL2RenderingContext,
  width: number,
  height: number,
): Uint8ClampedArray | null {
  const texture = gl.getParameter(gl.TEXTURE_BINDING_2D) as WebGLTexture;
  gl.bindFramebuffer(gl.FRAMEBUFFER, gl.createFramebuffer());
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
  if (gl.checkFramebufferStatus(gl.FRAMEBUFFER) !== gl.FRAMEBUFFER_COMPLETE) return null;
  const bytes = new Uint8Array(4 * width * height);
  gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
  return new Uint8ClampedArray(bytes.buffer);
}
