package worktree

import (
	"context"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// maxAuthorCommits limits how many commits AuthorOf reads.
const maxAuthorCommits = "100"

// AuthorOf returns the author of the newest commit of the contribution that has an author. Snapshots by Fleet have none. The result is
// empty if no commit has an author, or if the repository lacks the contribution.
func (g *Git) AuthorOf(ctx context.Context, repository string, c fleet.Contribution) (fleet.Person, error) {
	v, err := g.openRepository(repository)
	if err != nil {
		return fleet.Person{}, err
	}
	defer v.close()
	found, err := v.existingObjects(ctx, []string{c.Head, c.Since})
	if err != nil || !slices.Contains(found, c.Head) {
		return fleet.Person{}, err
	}
	args := []string{"log", "--max-count=" + maxAuthorCommits, "--format=%an%x00%ae", c.Head}
	if slices.Contains(found, c.Since) {
		args = append(args, "^"+c.Since)
	}
	out, err := v.run(ctx, append(args, "--")...)
	for line := range strings.Lines(out) {
		name, email, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		if email != "" && email != placeholderEmail {
			return fleet.Person{Name: name, Email: email}, err
		}
	}
	return fleet.Person{}, err
}

// placeholderEmail is the email address in commits by Fleet, and in commits whose author is unknown.
const placeholderEmail = "fleet@localhost"
