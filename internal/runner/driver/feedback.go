package driver

// FeedbackFile is the file in a run's directory with Job.Feedback, of a run that has any.
const FeedbackFile = "feedback.md"

// WithFeedback returns the job as the agent gets it when it is to try again: an agent that remembers its run gets the
// feedback as the next turn, any other one its task with the feedback. A script is not changed: it can read the file.
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
