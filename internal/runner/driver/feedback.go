package driver

// FeedbackFile is the file in a run's directory that contains Job.Feedback, if there is any.
const FeedbackFile = "feedback.md"

// WithFeedback returns the job for another attempt after failed checks. An agent that continues its conversation gets
// the feedback as the next turn; any other one gets its task with the feedback. A script is not changed, because it can
// read the file.
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
