package worktree

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// workCommit is a commit of a contribution.
type workCommit struct {
	oid string
	commitObject
}

// commits returns the commits with the object ids, in the same order.
func (d *draft) commits(ctx context.Context, oids []string) (all []workCommit, err error) {
	var out bytes.Buffer
	if len(oids) == 0 {
		return nil, nil
	}
	if err := d.pipe(ctx, strings.NewReader(strings.Join(oids, "\n")+"\n"), &out, "cat-file", "--batch"); err != nil {
		return nil, err
	}
	for _, oid := range oids {
		var name, kind string
		var size int64
		if _, err := fmt.Fscanf(&out, "%s %s %d\n", &name, &kind, &size); err != nil || kind != "commit" || int64(out.Len()) <= size {
			return nil, &Error{Message: "git cannot read the commit " + oid}
		}
		w := parseCommit(string(out.Next(int(size))))
		_, _ = out.ReadByte()
		w.oid = oid
		all = append(all, w)
	}
	return all, nil
}

// parseCommit parses a commit. It ignores the committer, and the signature, which would not be valid for another commit.
func parseCommit(text string) (w workCommit) {
	header, message, _ := strings.Cut(text, "\n\n")
	w.message = message
	for line := range strings.SplitSeq(header, "\n") {
		switch key, value, _ := strings.Cut(line, " "); key {
		case "tree":
			w.tree = value
		case "parent":
			w.parents = append(w.parents, value)
		case "author":
			w.author = value
		case "encoding":
			w.encoding = value
		}
	}
	return w
}

// unsafeNamePattern matches characters that a person's name in a commit cannot have.
var unsafeNamePattern = regexp.MustCompile(`[<>\x00-\x1f\x7f]+`)

// personLine returns the value of the author line or the committer line of a commit.
func personLine(p fleet.Person, at time.Time) string {
	clean := func(s, empty string) string {
		if s = strings.TrimSpace(unsafeNamePattern.ReplaceAllString(strings.ToValidUTF8(s, ""), "")); s == "" {
			return empty
		}
		return s
	}
	return fmt.Sprintf("%s <%s> %d +0000", clean(p.Name, "Fleet"), clean(p.Email, placeholderEmail), max(0, at.Unix()))
}

// cleanMessage returns the message without characters that a commit cannot have, without space around it, and with a newline at the
// end.
func cleanMessage(text string) string {
	return strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")) + "\n"
}
