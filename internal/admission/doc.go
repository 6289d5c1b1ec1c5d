// Package admission decides which calls the server works on, whatever their face: it identifies the caller, checks what the caller
// may call, limits how much a principal may ask for, lets calls wait for their turn, and writes the log, the metrics and the audit
// log.
//
// Its Interceptor wraps every call of package rpc. It knows the methods by their options in the proto, except for the methods that are
// open to all. It must never know what a particular method does.
package admission
