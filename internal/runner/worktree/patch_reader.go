package worktree

import (
	"path"
	"strconv"
	"strings"
)

// maxCompared limits how many files of a contribution are compared: a few small tree objects of an agent can describe
// millions of files. Each of a renamed file's two paths counts.
const maxCompared = 50_000

// patchReader reads the output of diff-tree with --raw and -p into a mergePreview.
type patchReader struct {
	preview *mergePreview
	onLimit func()       // is called when there are maxCompared files
	patches []*fileLines // the files whose patches follow, in order
	current *fileLines
	inPatch bool
}

// readLine processes a line of the output.
func (p *patchReader) readLine(text string) {
	switch {
	case !p.inPatch && strings.HasPrefix(text, ":"):
		p.readFileEntry(text)
	case strings.HasPrefix(text, "diff --git "): // a changed line of a file begins with + or -
		p.inPatch, p.current = true, nil
		if len(p.patches) > 0 {
			p.current, p.patches = p.patches[0], p.patches[1:]
		}
	case p.current != nil && strings.HasPrefix(text, "@@ -"):
		if s, ok := parseSpan(text); ok {
			p.current.spans = append(p.current.spans, s)
		}
	case p.current != nil && strings.HasPrefix(text, "Binary files "):
		p.current.onlyLines = false
	}
}

// readFileEntry processes a line such as ":100644 100644 OID OID R100<tab>old<tab>new".
func (p *patchReader) readFileEntry(text string) {
	fields := strings.Split(text, "\t")
	entry := strings.Fields(fields[0])
	if len(entry) != 5 || len(fields) < 2 {
		return
	}
	if len(p.preview.files) >= maxCompared {
		p.onLimit()
		return
	}
	status := entry[4][0]
	f := &fileLines{onlyLines: status == 'M' && entry[0] == ":"+entry[1]}
	for _, name := range fields[1:] {
		p.preview.files[unquotePath(name)] = f
	}
	p.patches = append(p.patches, f)
	switch status {
	case 'A':
		p.preview.addedPaths = append(p.preview.addedPaths, unquotePath(fields[1]))
	case 'T': // two patches: one removes the file, and the other adds it
		p.patches = append(p.patches, f)
	case 'R':
		p.preview.renamedDirs[path.Dir(unquotePath(fields[1]))] = true
		p.preview.addedPaths = append(p.preview.addedPaths, unquotePath(fields[len(fields)-1]))
	}
}

// unquotePath returns the path without the quotes that git may have added.
func unquotePath(name string) string {
	if plain, err := strconv.Unquote(name); err == nil && strings.HasPrefix(name, `"`) {
		return plain
	}
	return name
}

// parseSpan returns the lines that a hunk replaces, from its header, for example "@@ -10,2 +11 @@". ok is false if the header is not
// valid.
func parseSpan(header string) (s span, ok bool) {
	old, _, _ := strings.Cut(strings.TrimPrefix(header, "@@ -"), " ")
	first, count, many := strings.Cut(old, ",")
	n, err := strconv.Atoi(first)
	s = span{n - 1, 1}
	if many && err == nil {
		s.size, err = strconv.Atoi(count)
	}
	if s.size == 0 {
		s.begin = n // lines are inserted after line n
	}
	return s, err == nil
}
