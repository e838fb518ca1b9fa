"""`kubectl fairlead why JOB`: the one thing that keeps a job from going on, or ended it, in a sentence.

`evidence` reads the objects, `cause` concludes, `fairlead.commands.sayings` has a sentence and a remedy for each reason, `text` prints.
"""
