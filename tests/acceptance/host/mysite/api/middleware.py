class AnyOrigin:
    """Lets pages of other sites call the API, and read what it refuses."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        answer = self.get_response(request)
        if request.path.startswith("/api/"):
            answer["Access-Control-Allow-Origin"] = "*"
        return answer
