package service

import (
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

// conflictText describes the conflicts for people.
func conflictText(branch string, conflicts []fleet.Conflict) string {
	paths := make([]string, len(conflicts))
	for i, c := range conflicts {
		paths[i] = c.Path
	}
	return fmt.Sprintf("it conflicts with %s in %s", branch, fleet.JoinNames(paths))
}

// checkEnding says how the check failed, as the end of a sentence.
func checkEnding(c fleet.CheckResult) string {
	switch {
	case c.ExitCode != nil:
		return fmt.Sprintf("failed with exit code %d", *c.ExitCode)
	case c.Reason != "":
		return "failed: " + c.Reason
	}
	return "failed"
}

// maxTaskOutput limits how much of a check's output a task quotes, in bytes.
const maxTaskOutput = 4 << 10

// conflictTask returns the description of the task that resolves the conflicts.
func conflictTask(title string, b fleet.Branch, conflicts []fleet.Conflict) string {
	var t strings.Builder
	fmt.Fprintf(&t, "# Conflicts of %q with %s\n# Resolve the conflicts of this work of yours with the branch, so that it can land there.\n", title, b.Name)
	fmt.Fprintf(&t, "# Bring your branch on top of the commit %s of %s (git rebase or git merge, after git fetch if you do not have it), resolve the conflicts so that both changes work, and commit.\n", fleet.ShortCommit(b.Commit), b.Name)
	for _, c := range conflicts {
		fmt.Fprintf(&t, "#\n# %s (%s)\n", c.Path, c.Kind)
		quoteLines(&t, c.Hunks)
		if t.Len() > maxConflictTask {
			t.WriteString("#\n# and more: git shows them\n")
			break
		}
	}
	return t.String()
}

// workTitle returns the title of the task that began the work.
func workTitle(tx fleet.ReadTx, t *fleet.Task, l *fleet.Landing) (string, error) {
	if len(l.Earlier) > 0 {
		first, err := tx.Task(l.Earlier[0])
		if err != nil {
			return "", err
		}
		if first != nil { // it may have been deleted
			return first.Title(), nil
		}
	}
	return t.Title(), nil
}

// maxConflictTask limits the description of a task about conflicts, in bytes.
const maxConflictTask = 32 << 10

// checksTask returns the description of the task that makes the checks pass.
func checksTask(title string, b fleet.Branch, c fleet.CheckResult) string {
	var t strings.Builder
	fmt.Fprintf(&t, "# Failed check of %q on %s\n# Make a check pass that fails when this work of yours is combined with the branch, so that it can land there.\n", title, b.Name)
	fmt.Fprintf(&t, "# Bring your branch on top of the commit %s of %s (git rebase or git merge, after git fetch if you do not have it), make the check pass, and commit.\n#\n# The check %s\n", fleet.ShortCommit(b.Commit), b.Name, checkEnding(c))
	quoteLines(&t, c.Command)
	t.WriteString("# and wrote:\n")
	quoteLines(&t, lastBytes(c.Output, maxTaskOutput))
	return t.String()
}

// quoteLines writes the lines of the text in a form that neither an agent nor a shell treats as instructions.
func quoteLines(b *strings.Builder, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString("# > " + strings.TrimRight(line, "\r") + "\n")
	}
}
