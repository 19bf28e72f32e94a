// Every piece of text whose contrast with what is behind it is below 4.5 (3 for large text).
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = ([r, g, b, a], behind) => [r, g, b].map((part, at) => (part * a + behind[at] * (255 - a)) / 255);
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const layer = rgba(getComputedStyle(at).backgroundColor);
      layers.unshift(layer);
      if (layer[3] === 255) break;
    }
    return layers.reduce((ground, layer) => over(layer, ground), [255, 255, 255]);
  };
  const light = (color) => {
    const [r, g, b] = color.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest("script, style, title, option, :disabled, #told")) continue;
    const style = getComputedStyle(element);
    const ground = behind(element);
    const ink = over(rgba(element.closest("svg") ? style.fill : style.color), ground);
    const [brighter, darker] = [light(ink), light(ground)].sort((a, b) => b - a);
    const ratio = (brighter + 0.05) / (darker + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} ${element.className} ${walker.currentNode.textContent.trim().slice(0, 30)}`);
  }
  return [...new Set(poor)];
};
