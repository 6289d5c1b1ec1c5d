package service

import (
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

// conflictText tells people with which branch and in which files the work conflicts.
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

// maxQuotedOutput is how much of the end of a check's output a task quotes, in bytes.
const maxQuotedOutput = 4 << 10

// maxConflictTask is the size in bytes at which conflictTask adds no further conflicts.
const maxConflictTask = 32 << 10

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

// checksTask returns the description of the task that makes the failed check c pass.
func checksTask(title string, b fleet.Branch, c fleet.CheckResult) string {
	var t strings.Builder
	fmt.Fprintf(&t, "# Failed check of %q on %s\n# Make a check pass that fails when this work of yours is combined with the branch, so that it can land there.\n", title, b.Name)
	fmt.Fprintf(&t, "# Bring your branch on top of the commit %s of %s (git rebase or git merge, after git fetch if you do not have it), make the check pass, and commit.\n#\n# The check %s\n", fleet.ShortCommit(b.Commit), b.Name, checkEnding(c))
	quoteLines(&t, c.Command)
	t.WriteString("# and wrote:\n")
	quoteLines(&t, lastBytes(c.Output, maxQuotedOutput))
	return t.String()
}

// quoteLines writes the lines of the text in a form that neither an agent nor a shell treats as instructions.
func quoteLines(b *strings.Builder, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString("# > " + strings.TrimRight(line, "\r") + "\n")
	}
}
