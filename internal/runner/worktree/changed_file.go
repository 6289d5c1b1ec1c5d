package worktree

import (
	"bytes"
	"context"
	"strings"
)

// changedFile is a file that differs between two commits.
type changedFile struct {
	path     string
	old, new string // object ids of the file in the two commits; all zeros if the commit does not have the file
}

// changedFiles returns the files that differ between the commits.
func (v *view) changedFiles(ctx context.Context, from, to string) (all []changedFile, err error) {
	var out bytes.Buffer
	if err := v.pipe(ctx, nil, &out, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", from, to); err != nil {
		return nil, err
	}
	fields := strings.Split(out.String(), "\x00")
	for i := 0; i+1 < len(fields); i += 2 { // ":100644 100644 OID OID M", the path
		if entry := strings.Fields(fields[i]); len(entry) == 5 {
			all = append(all, changedFile{fields[i+1], entry[2], entry[3]})
		}
	}
	return all, nil
}
