package fleet

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Verdict is what a review says about work.
type Verdict string

// The verdicts.
const (
	VerdictComment Verdict = "comment"
	VerdictApprove Verdict = "approve"
	VerdictChanges Verdict = "request_changes"
)

// State returns the state into which the verdict brings work.
func (v Verdict) State() LandingState {
	switch v {
	case VerdictApprove:
		return LandingApproved
	case VerdictChanges:
		return LandingChangesRequested
	}
	return LandingReview
}

// Review is somebody's opinion on the work of a task.
type Review struct {
	ID       string          `json:"-"`
	TaskID   string          `json:"-"`
	By       string          `json:"by"` // name of the principal
	At       time.Time       `json:"at"`
	Verdict  Verdict         `json:"verdict"`
	Text     string          `json:"text,omitempty"`
	Comments []ReviewComment `json:"comments,omitempty"`
	Head     string          `json:"head"`                // the commit that was reviewed
	NextTask string          `json:"next_task,omitempty"` // id of the task that makes the requested changes; empty if there is none
}

// ReviewComment is a comment on a line or on a whole file.
type ReviewComment struct {
	Path string `json:"path"`
	Line int    `json:"line"`          // 0: on the whole file
	Old  bool   `json:"old,omitempty"` // Line counts the lines of the file before the change
	Text string `json:"text"`
}

// These limit reviews.
const (
	MaxReviewText     = 16 << 10 // in bytes, also of a comment
	MaxReviewComments = 200
	MaxReviewSize     = 128 << 10 // of all texts and paths, in bytes
	MaxReviews        = 100       // of a task
	maxReviewPath     = 4096      // in bytes
)

// Validate returns an error that names the field that is wrong.
func (r *Review) Validate() error {
	switch {
	case r.Verdict != VerdictComment && r.Verdict != VerdictApprove && r.Verdict != VerdictChanges:
		return InvalidField("verdict", "verdict is %q: use comment, approve or request_changes", Shorten(string(r.Verdict), 40))
	case len(r.Text) > MaxReviewText:
		return InvalidField("text", "text has %d bytes: use at most %d", len(r.Text), MaxReviewText)
	case r.Verdict == VerdictChanges && IsBlank(r.Text) && len(r.Comments) == 0:
		return InvalidField("text", "nothing says what to change: give text, or comments on lines")
	case r.Verdict == VerdictComment && IsBlank(r.Text) && len(r.Comments) == 0:
		return InvalidField("text", "the review says nothing: give text or comments, or another verdict")
	case len(r.Comments) > MaxReviewComments:
		return InvalidField("comments", "there are %d comments: give at most %d", len(r.Comments), MaxReviewComments)
	}
	size := len(r.Text)
	for i, c := range r.Comments {
		size += len(c.Path) + len(c.Text)
		switch {
		case c.Path == "" || len(c.Path) > maxReviewPath || !utf8.ValidString(c.Path) || strings.ContainsRune(c.Path, 0):
			return InvalidField("comments", "comment %d has no valid path of a file: use one as `show_task_changes` lists it", i+1)
		case IsBlank(c.Text):
			return InvalidField("comments", "comment %d is empty: give text", i+1)
		case len(c.Text) > MaxReviewText:
			return InvalidField("comments", "comment %d has %d bytes: use at most %d", i+1, len(c.Text), MaxReviewText)
		case c.Line < 0:
			return InvalidField("comments", "comment %d is on line %d: count lines from 1, or give 0 for the whole file", i+1, c.Line)
		}
	}
	if size > MaxReviewSize {
		return InvalidField("comments", "the review has %d bytes: use at most %d, and a second review for the rest", size, MaxReviewSize)
	}
	return nil
}

// Location names the file and the line of the comment for people.
func (c ReviewComment) Location() string {
	switch {
	case c.Line == 0:
		return c.Path
	case c.Old:
		return fmt.Sprintf("%s, line %d before the change", c.Path, c.Line)
	}
	return fmt.Sprintf("%s:%d", c.Path, c.Line)
}
