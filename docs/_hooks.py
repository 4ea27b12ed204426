"""Build hooks of the site: API pages for every module that exists, so that no list goes stale."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# The folders whose modules are public, and the sentence at the head of each page.
API = {
    "models": "The systems. Reach them as `vf.<Name>`.",
    "privacy": "What is promised and what it cost.",
    "engine": "Private training.",
    "nn": "Layers that know their own per-example gradient.",
    "flows": "Densities, with no idea of privacy.",
    "audit": "Attacks on what is released, and measurements of the engine.",
    "evaluation": "How good a model is. Results on private rows are as private as they are.",
}
GENERATED = "benchmarks*.md"  # written by other commands; linked when present
REPRODUCTIONS = "reproductions"  # generated pages in docs, figures in the folder beside it
OVERVIEW = "index.md"  # of all papers, before the page of each


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Append the pages that depend on what exists to the navigation."""
    written = sorted(path.name for path in Path(config.docs_dir).glob(GENERATED))
    results = [{name[:-3].replace("_", " ").capitalize(): name} for name in written]
    papers = sorted((Path(config.docs_dir) / REPRODUCTIONS).glob("*.md"), key=_overview_first)
    pages = [{_title(path): f"{REPRODUCTIONS}/{path.name}"} for path in papers]
    if pages:
        results.append({"Reproductions": pages})
    api = [{page.split("/")[1][:-3]: page} for page in _pages(config)]
    config.nav = [*(config.nav or []), *results, {"API": api}]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add one page per public folder, with a section for each of its modules."""
    for uri, content in _pages(config).items():
        files.append(File.generated(config, uri, content=content))
    root = Path(config.config_file_path).parent
    for path in (root / REPRODUCTIONS).glob("*/figures/*.png"):
        uri = path.relative_to(root).as_posix()
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point pages about papers, which also read well where they lie, to the figures within the site."""
    if not page.file.src_uri.startswith(f"{REPRODUCTIONS}/"):
        return markdown
    return markdown.replace(f"](../../{REPRODUCTIONS}/", "](")


def _overview_first(path: Path) -> tuple[bool, str]:
    return path.name != OVERVIEW, path.name


def _title(path: Path) -> str:
    return "Overview" if path.name == OVERVIEW else path.stem.upper()


def _pages(config: MkDocsConfig) -> dict[str, str]:
    source = Path(config.config_file_path).parent / "src"
    pages = {"api/veilflow.md": "# veilflow\n\nThe names to start from.\n\n::: veilflow\n"}
    for folder, sentence in API.items():
        paths = sorted((source / "veilflow" / folder).rglob("*.py"))
        modules = [".".join(p.relative_to(source).with_suffix("").parts) for p in paths]
        sections = [f"::: {name}" for name in modules if _public(source, name)]
        if sections:
            pages[f"api/{folder}.md"] = "\n\n".join([f"# veilflow.{folder}", sentence, *sections])
    return pages


def _public(source: Path, module: str) -> bool:
    parts = module.split(".")
    parents = [source.joinpath(*parts[:depth]) for depth in range(1, len(parts))]
    packaged = all((parent / "__init__.py").exists() for parent in parents)
    return packaged and not any(part.startswith("_") for part in parts)
