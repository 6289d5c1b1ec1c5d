package local_test

// serve is a stand-in for a server: see TestServerKilled.
func serve(string) {}
