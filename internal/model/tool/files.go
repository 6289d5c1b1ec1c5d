//go:build cgo

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"

	"github.com/docker/cagent/pkg/config/latest"
	"github.com/docker/cagent/pkg/tools"
	"github.com/docker/cagent/pkg/tools/builtin"
)

const (
	maxFileSize = 16 << 20 // the tools for editing and searching read at most this many bytes of a file
	maxEntries  = 100      // the tools show at most this many entries of a directory or a tree; the library has the same limit
)

// files is the library's filesystem toolset, restricted to one directory. The library's own toolset opens every path
// that the server's user can open.
type files struct {
	tools.BaseToolSet
	dir            string
	noSymlinks     bool // the path of dir may not contain symbolic links
	includeIgnored bool // the tools also show git's own files and files that git ignores
	postEdit       []latest.PostEditConfig
	env            []string // environment of the postEdit commands
	limit          int      // the largest result, in bytes
}

// NewFiles returns the tools of the toolset t for files in the directory. If noSymlinks is set, the path of the directory may
// not contain symbolic links. env is the environment of commands that run after edits. limit is the maximum size of a result,
// in bytes.
func NewFiles(dir string, noSymlinks bool, t *latest.Toolset, env []string, limit int) tools.ToolSet {
	return &files{dir: dir, noSymlinks: noSymlinks, includeIgnored: t.IgnoreVCS != nil && !*t.IgnoreVCS, postEdit: t.PostEdit, env: env, limit: limit}
}

// Instructions implements tools.ToolSet.
func (f *files) Instructions() string {
	return `## Filesystem Tool Instructions

The tools work in the directory ` + f.dir + ` and below it, and nowhere else.

- Paths are relative to this directory. An absolute path must lead into it.
- Prefer read_multiple_files to several calls of read_file.
- Use search_files_content to find code or text, and exclude patterns to keep the search small.`
}

// Tools implements tools.ToolSet. It uses the schemas of the library.
func (f *files) Tools(ctx context.Context) ([]tools.Tool, error) {
	all, err := builtin.NewFilesystemTool(f.dir, builtin.WithIgnoreVCS(false)).Tools(ctx)
	if err != nil {
		return nil, err
	}
	handlers := map[string]tools.ToolHandler{
		builtin.ToolNameReadFile:           withDir(f, f.readFile),
		builtin.ToolNameReadMultipleFiles:  withDir(f, f.readFiles),
		builtin.ToolNameWriteFile:          withDir(f, f.writeFile),
		builtin.ToolNameEditFile:           withDir(f, f.editFile),
		builtin.ToolNameListDirectory:      withDir(f, f.listDirectory),
		builtin.ToolNameDirectoryTree:      withDir(f, f.directoryTree),
		builtin.ToolNameSearchFilesContent: withDir(f, f.searchContent),
	}
	restricted := all[:0]
	for _, t := range all {
		if h := handlers[t.Name]; h != nil { // tools that a newer library has added would not be restricted to the directory
			t.Handler = h
			restricted = append(restricted, t)
		}
	}
	return restricted, nil
}

// withDir returns a handler that opens the directory and calls do. The model receives an error as the tool's result.
func withDir[T any](f *files, do func(context.Context, *os.Root, T) (string, error)) tools.ToolHandler {
	return builtin.NewHandler(func(ctx context.Context, args T) (*tools.ToolCallResult, error) {
		dir, err := openWorkDir(f.dir, f.noSymlinks)
		if err != nil {
			return tools.ResultError("The working directory cannot be opened: " + reasonOf(err)), nil
		}
		defer func() { _ = dir.Close() }()
		text, err := do(ctx, dir, args)
		if err != nil {
			return tools.ResultError(reasonOf(err)), nil
		}
		return tools.ResultSuccess(text), nil
	})
}

// openWorkDir opens an agent's working directory. If noSymlinks is set, its path may not contain symbolic links.
func openWorkDir(dir string, noSymlinks bool) (*os.Root, error) {
	if noSymlinks {
		return sandbox.OpenRoot(dir)
	}
	return os.OpenRoot(dir)
}

// ReadFiles returns the contents of the named files in the working directory. It reads at most limit bytes of each file. It
// leaves out files that it cannot read, and files outside the directory.
func ReadFiles(dir string, noSymlinks bool, names []string, limit int64) (texts []string) {
	if len(names) == 0 {
		return nil
	}
	work, err := openWorkDir(dir, noSymlinks)
	if err != nil {
		return nil
	}
	defer func() { _ = work.Close() }()
	for _, name := range names {
		if text, err := contents(work, name, limit); err == nil {
			texts = append(texts, driver.CleanText(text))
		}
	}
	return texts
}

// reasonOf returns the text of an error for the model, without the name of the system call.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		switch {
		case errors.Is(e.Err, fs.ErrNotExist):
			return e.Path + ": not found"
		case e.Err.Error() == "path escapes from parent": // os.Root has no error value for this case
			return e.Path + " leads out of the working directory"
		}
		return e.Path + ": " + e.Err.Error()
	}
	return err.Error()
}

// relativePath returns the path relative to the directory. It returns an error if the text of the path leads out of the
// directory. Symbolic links are left to os.Root, which does not follow them out of the directory.
func (f *files) relativePath(p string) (string, error) {
	if strings.ContainsRune(p, 0) {
		return "", errors.New("the path contains a NUL character")
	}
	name := filepath.Clean(p)
	if filepath.IsAbs(name) {
		for _, dir := range []string{f.dir, resolveLinks(f.dir)} {
			if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
				return rel, nil
			}
		}
	}
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%s is outside the working directory %s: the file tools work only in that directory", p, f.dir)
	}
	return name, nil
}

// resolveLinks returns the path without symbolic links, or unchanged if it cannot be resolved.
func resolveLinks(p string) string {
	if r, err := filepath.EvalSymlinks(p); err == nil {
		return r
	}
	return p
}

// open opens a regular file, and returns an error for any other kind of file. It does not block on a FIFO.
func open(dir *os.Root, name string, flag int) (*os.File, error) {
	file, err := dir.OpenFile(name, flag|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = file.Close()
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return file, nil
}

// contents reads at most limit bytes of a regular file.
func contents(dir *os.Root, name string, limit int64) ([]byte, error) {
	file, err := open(dir, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, limit))
}

func (f *files) readFile(_ context.Context, dir *os.Root, args builtin.ReadFileArgs) (string, error) {
	name, err := f.relativePath(args.Path)
	if err != nil {
		return "", err
	}
	b, err := contents(dir, name, int64(f.limit)+1) // read one byte more than the limit, so that the guard marks the text as shortened
	return string(b), err
}

func (f *files) readFiles(ctx context.Context, dir *os.Root, args builtin.ReadMultipleFilesArgs) (string, error) {
	type content struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	all := []content{}
	size := 0
	for _, p := range args.Paths {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		text, err := f.readFile(ctx, dir, builtin.ReadFileArgs{Path: p})
		if err != nil {
			text = reasonOf(err)
		}
		all = append(all, content{p, text})
		if size += len(text); size > f.limit {
			break
		}
	}
	if args.JSON {
		b, err := json.MarshalIndent(all, "", "  ")
		return string(b), err
	}
	var out strings.Builder
	for _, c := range all {
		fmt.Fprintf(&out, "=== %s ===\n%s\n\n", c.Path, c.Content)
	}
	return out.String(), nil
}

// writablePath returns the relative path of a file that the agent may write. It refuses git's own files, because they can
// name programs that git runs.
func (f *files) writablePath(p string) (string, error) {
	name, err := f.relativePath(p)
	if err != nil {
		return "", err
	}
	full := filepath.Join(f.dir, name)
	for parent := full; parent != filepath.Dir(parent); parent = filepath.Dir(parent) {
		if r, err := filepath.EvalSymlinks(parent); err == nil {
			full = r + strings.TrimPrefix(full, parent)
			break
		}
	}
	rel, err := filepath.Rel(resolveLinks(f.dir), full)
	if err != nil {
		return "", err
	}
	for _, part := range append(strings.Split(rel, "/"), strings.Split(name, "/")...) {
		if strings.EqualFold(part, ".git") {
			return "", fmt.Errorf("%s belongs to git: the file tools cannot change it", p)
		}
	}
	return name, nil
}

func (f *files) writeFile(ctx context.Context, dir *os.Root, args builtin.WriteFileArgs) (string, error) {
	name, err := f.writablePath(args.Path)
	if err != nil {
		return "", err
	}
	if err := dir.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	if err := replaceContent(dir, name, args.Content); err != nil {
		return "", err
	}
	if err := f.afterEdit(ctx, name); err != nil {
		return "", fmt.Errorf("the file was written, but the command after it failed: %w", err)
	}
	return fmt.Sprintf("File written successfully: %s (%d bytes)", args.Path, len(args.Content)), nil
}

// replaceContent replaces the content of a regular file, or creates the file.
func replaceContent(dir *os.Root, name, content string) error {
	file, err := open(dir, name, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = io.WriteString(file, content)
	}
	return errors.Join(err, file.Close())
}

func (f *files) editFile(ctx context.Context, dir *os.Root, args builtin.EditFileArgs) (string, error) {
	name, err := f.writablePath(args.Path)
	if err != nil {
		return "", err
	}
	b, err := contents(dir, name, maxFileSize+1)
	switch {
	case err != nil:
		return "", err
	case len(b) > maxFileSize:
		return "", fmt.Errorf("%s is larger than %d bytes", args.Path, maxFileSize)
	}
	text := string(b)
	for i, e := range args.Edits {
		if e.OldText == "" || !strings.Contains(text, e.OldText) {
			return "", fmt.Errorf("edit %d failed: old text not found", i+1)
		}
		text = strings.Replace(text, e.OldText, e.NewText, 1)
	}
	if err := replaceContent(dir, name, text); err != nil {
		return "", err
	}
	if err := f.afterEdit(ctx, name); err != nil {
		return "", fmt.Errorf("the file was edited, but the command after it failed: %w", err)
	}
	return fmt.Sprintf("File edited successfully: %d edits", len(args.Edits)), nil
}

// afterEdit runs the definition's post-edit commands whose pattern matches the edited file.
func (f *files) afterEdit(ctx context.Context, name string) error {
	for _, p := range f.postEdit {
		if ok, err := filepath.Match(p.Path, filepath.Base(name)); err != nil || !ok {
			continue
		}
		env := append(slices.Clone(f.env), "path="+filepath.Join(f.dir, name))
		res, err := CommandHandler([]string{"/bin/sh", "-c", p.Cmd}, f.dir, env, f.limit)(ctx, tools.ToolCall{})
		switch {
		case err != nil:
			return err
		case res.IsError:
			return errors.New(res.Output)
		}
	}
	return nil
}

func (f *files) listDirectory(_ context.Context, dir *os.Root, args builtin.ListDirectoryArgs) (string, error) {
	name, err := f.relativePath(args.Path)
	if err != nil {
		return "", err
	}
	entries, err := fs.ReadDir(dir.FS(), filepath.ToSlash(name))
	if err != nil {
		return "", err
	}
	ignore := newIgnoreRules(dir, f.includeIgnored)
	var out strings.Builder
	shown := 0
	for _, e := range entries {
		if ignore.ignores(path.Join(filepath.ToSlash(name), e.Name()), e.IsDir()) {
			continue
		}
		if shown++; shown > maxEntries {
			out.WriteString("...output truncated due to file limit...\n")
			break
		}
		kind := "FILE"
		if e.IsDir() {
			kind = "DIR "
		}
		fmt.Fprintf(&out, "%s %s\n", kind, e.Name())
	}
	return out.String(), nil
}
