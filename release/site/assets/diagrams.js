// Zensical's script draws diagrams with `mermaid`, and would load it from a CDN. This one loads it from the site,
// on the first page that has a diagram.
const beside = document.currentScript.src

let settings
let loading

function loaded() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script")
    script.src = new URL("mermaid.min.js", beside).href
    script.onload = () => {
      window.mermaid.initialize(settings)
      resolve(window.mermaid)
    }
    script.onerror = () => reject(new Error(`could not load ${script.src}`))
    document.head.append(script)
  })
  return loading
}

window.mermaid = {
  initialize(given) {
    settings = given
  },
  // On a phone a diagram of usual width fits; a wide one keeps a width at which it can be read, and scrolls: by the keyboard, too.
  async render(...diagram) {
    const { svg, bindFunctions } = await (await loaded()).render(...diagram)
    return {
      svg: svg.replace(/max-width: ([\d.]+px);/, "max-width: $1; min-width: min($1 * 0.45, 640px);"),
      bindFunctions(root) {
        bindFunctions?.(root)
        root.host.tabIndex = 0
        root.host.role = "group"
        root.host.ariaLabel = "Diagram"
      },
    }
  },
}
