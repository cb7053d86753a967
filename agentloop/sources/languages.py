"""File names and what they say: language (a grammar's name where there is one), kind, MIME type, traits."""

from __future__ import annotations

from agentloop.types import FileKind

_CODE = """
python py pyi pyx pxd pyw | cython -
javascript js mjs cjs jsx es6 | typescript ts mts cts | tsx tsx | vue vue | svelte svelte | astro astro
java java | kotlin kt kts | scala scala sc sbt | groovy groovy gradle | clojure clj cljs cljc edn
c c h | cpp cc cpp cxx c++ hh hpp hxx h++ ipp inl cu cuh ino | objc m mm | csharp cs csx | fsharp fs fsx fsi
go go | rust rs | zig zig | swift swift | dart dart | d d | nim nim | v v sv svh | vhdl vhd vhdl
ruby rb rake gemspec ru | php php phtml | perl pl pm t pod | lua lua | r r | julia jl
haskell hs lhs | ocaml ml mli | erlang erl hrl | elixir ex exs | elm elm | racket rkt | scheme scm ss
lisp lisp el cl | bash sh bash zsh ksh bats | fish fish | powershell ps1 psm1 psd1 | batch bat cmd | vim vim
sql sql ddl dml psql | graphql graphql gql | proto proto | thrift thrift | solidity sol | wat wat
css css | scss scss sass less | heex heex | embedded_template erb ejs
gotmpl tmpl gotmpl | jinja2 j2 jinja jinja2
fortran f f77 f90 f95 f03 f08 for | pascal pas pp | ada adb ads | cobol cob cbl | asm s asm nasm | cmake cmake
nix nix | hcl hcl tf tfvars | starlark bzl star | jsonnet jsonnet libsonnet | dtd dtd | make mk mak
just just
"""
_PROSE = """
markdown md markdown mdx mdown mkd | rst rst rest | asciidoc adoc asciidoc | org org | latex tex ltx sty
typst typ
"""
_DATA = """
json json geojson webmanifest har | jsonc jsonc code-workspace | json5 json5 | jsonl jsonl ndjson
yaml yaml yml | toml toml | ini ini cfg conf inf desktop | properties properties | xml xml xsd xsl xslt svg
xml plist resx csproj vcxproj fsproj props targets wsdl rng pom
po po pot | kdl kdl | env env | csv csv | tsv tsv tab
"""
_DOCUMENT = "html html htm xhtml | pdf pdf | docx docx | notebook ipynb | eml eml | mbox mbox"

CODE, PROSE, DATA, TEXT = FileKind.CODE, FileKind.PROSE, FileKind.DATA, FileKind.TEXT


def _table(text: str, kind: FileKind) -> dict[str, tuple[FileKind, str]]:
    groups = [group.split() for line in text.strip().splitlines() for group in line.split("|")]
    return {suffix: (kind, group[0]) for group in groups if group for suffix in group[1:] if suffix != "-"}


BY_SUFFIX: dict[str, tuple[FileKind, str]] = {
    **_table(_CODE, CODE),
    **_table(_PROSE, PROSE),
    **_table(_DATA, DATA),
    **_table(_DOCUMENT, FileKind.DOCUMENT),
    "txt": (FileKind.PROSE, "text"),
    "text": (FileKind.PROSE, "text"),
    "log": (FileKind.LOG, "log"),
    "out": (FileKind.TEXT, "text"),
    "err": (FileKind.TEXT, "text"),
    "diff": (FileKind.DIFF, "diff"),
    "patch": (FileKind.DIFF, "diff"),
}

BY_NAME: dict[str, tuple[FileKind, str]] = {
    "makefile": (CODE, "make"),
    "gnumakefile": (CODE, "make"),
    "justfile": (CODE, "just"),
    "dockerfile": (CODE, "dockerfile"),
    "containerfile": (CODE, "dockerfile"),
    "cmakelists.txt": (CODE, "cmake"),
    "jenkinsfile": (CODE, "groovy"),
    "rakefile": (CODE, "ruby"),
    "gemfile": (CODE, "ruby"),
    "vagrantfile": (CODE, "ruby"),
    "build": (CODE, "starlark"),
    "build.bazel": (CODE, "starlark"),
    "workspace": (CODE, "starlark"),
    "go.mod": (DATA, "gomod"),
    "pipfile": (DATA, "toml"),
    "requirements.txt": (DATA, "text"),
    ".gitignore": (DATA, "gitignore"),
    ".gitattributes": (DATA, "gitattributes"),
    **{
        f".{tool}ignore": (DATA, "gitignore") for tool in ("docker", "npm", "eslint", "prettier", "agentloop")
    },
    ".editorconfig": (DATA, "ini"),
    ".bashrc": (CODE, "bash"),
    ".profile": (CODE, "bash"),
    "readme": (PROSE, "text"),
    "license": (PROSE, "text"),
    "licence": (PROSE, "text"),
    "copying": (PROSE, "text"),
    "notice": (PROSE, "text"),
    "authors": (PROSE, "text"),
    "changelog": (PROSE, "text"),
    "changes": (PROSE, "text"),
    "news": (PROSE, "text"),
    "consoletext": (FileKind.LOG, "log"),
}

BY_INTERPRETER = {
    "python": "python", "pypy": "python", "sh": "bash", "bash": "bash", "dash": "bash", "zsh": "bash",
    "ksh": "bash", "node": "javascript", "nodejs": "javascript", "deno": "typescript", "bun": "typescript",
    "ruby": "ruby", "perl": "perl", "php": "php", "lua": "lua", "rscript": "r", "julia": "julia",
    "groovy": "groovy", "pwsh": "powershell", "fish": "fish", "make": "make", "awk": "awk", "tclsh": "tcl",
}  # fmt: skip

MIME = {
    "python": "text/x-python", "javascript": "text/javascript", "typescript": "text/x-typescript",
    "tsx": "text/x-typescript", "java": "text/x-java", "c": "text/x-c", "cpp": "text/x-c++",
    "go": "text/x-go",
    "rust": "text/x-rust", "ruby": "text/x-ruby", "php": "text/x-php", "bash": "text/x-shellscript",
    "css": "text/css", "sql": "application/sql", "markdown": "text/markdown", "rst": "text/x-rst",
    "html": "text/html", "xml": "application/xml", "json": "application/json", "jsonl": "application/jsonl",
    "yaml": "application/yaml", "toml": "application/toml", "csv": "text/csv",
    "tsv": "text/tab-separated-values", "diff": "text/x-diff", "latex": "text/x-tex",
    "pdf": "application/pdf", "notebook": "application/x-ipynb+json", "eml": "message/rfc822",
    "mbox": "application/mbox", "log": "text/x-log", "svg": "image/svg+xml", "json5": "application/json5",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BINARY_SUFFIXES = _words("""
    png jpg jpeg jpe gif bmp ico icns tif tiff webp avif heic heif psd xcf raw cr2 nef dng jxl mp3 mp4
    m4a m4v mov avi mkv webm wav flac ogg oga ogv opus aac wma wmv flv aiff mid ttf otf woff woff2 eot
    pfb zip tar 7z rar jar war ear whl egg apk aab ipa deb rpm dmg iso cab msi nupkg crx xpi lz lz4
    lzma tgz tbz tbz2 txz exe dll so dylib a o ko pdb class pyc pyo pyd wasm dex rlib rmeta sqlite
    sqlite3 db db3 mdb parquet avro orc arrow feather npy npz pkl pickle h5 hdf5 rds rdata onnx pt pth
    ckpt safetensors gguf tflite gmo doc xls xlsx xlsb ppt pptx odt ods odp epub mobi ps eps glb fbx
    blend stl 3ds dwg ttc swf fla keystore jks p12 pfx
""")

LOCK_NAMES = _words("""
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb poetry.lock
    pdm.lock uv.lock pipfile.lock cargo.lock gemfile.lock composer.lock go.sum mix.lock pubspec.lock
    podfile.lock flake.lock packages.lock.json conan.lock gradle.lockfile deno.lock pixi.lock
    conda-lock.yml
""")

VENDOR_DIRS = _words("""
    vendor vendors vendored _vendor node_modules bower_components third_party third-party thirdparty
    3rdparty 3rd_party site-packages dist-packages externals extern jspm_packages pods carthage .venv
    venv __pypackages__ .yarn godeps
""")
TEST_DIRS = _words("""
    test tests testing __tests__ spec specs e2e testdata test-data test_data unittests unittest fixtures
    __mocks__ mocks golden goldens __snapshots__
""")
EXAMPLE_DIRS = _words("""
    example examples sample samples demo demos tutorial tutorials benchmark benchmarks bench
""")
DOCS_DIRS = _words("""
    doc docs documentation man website
""")
GENERATED_DIRS = _words("""
    generated __generated__ _generated autogen dist .next .nuxt .output coverage htmlcov __pycache__
""")
PICTURE_DIRS = _words("""
    images _images image img imgs figures figs figure pictures pics icons logos screenshots diagrams
""")
VCS_DIRS = _words("""
    .git .hg .svn .bzr .jj _darcs CVS .pijul .fossil-settings
""")
