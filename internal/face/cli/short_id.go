package cli

// shortID returns the first 8 characters of an id, as tables show it. Usually they are enough to name a task or a question.
func shortID(id string) string { return id[:min(len(id), 8)] }

// shownID returns the id of a task or a question as a table shows it: the whole id with -o wide or -q, else its beginning.
func (s *session) shownID(id string) string {
	if s.output == wideFormat || s.quiet {
		return id
	}
	return shortID(id)
}
