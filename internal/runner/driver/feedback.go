package driver

// FeedbackFile is the file in a run's directory that contains Job.Feedback. It exists only if there is feedback.
const FeedbackFile = "feedback.md"

// WithFeedback returns the job for another attempt after failed checks. An agent that continues its conversation gets
// only the feedback as its prompt. Any other agent gets its task, followed by the feedback. A script of the shell
// driver stays unchanged, because it can read FeedbackFile.
func WithFeedback(d Driver, j Job) Job {
	if _, script := d.(shell); script || j.Feedback == "" {
		return j
	}
	if j.Session != "" {
		j.Prompt = j.Feedback
	} else {
		j.Prompt += "\n\n" + j.Feedback
	}
	return j
}
