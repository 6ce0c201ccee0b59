"""Kernels, code, reports and errors as documents, and the forms of a document: text, HTML, colours in a terminal."""
